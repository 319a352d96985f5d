import { SecretBox } from '../../shared/store/secrets.ts'

/** For parts that get no encrypted values. */
export const noKeys = new SecretBox([], () => Promise.resolve([]))
