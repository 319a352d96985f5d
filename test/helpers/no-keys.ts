import { SecretBox } from '../../shared/runtime/secret-box.ts'

/** For parts that get no encrypted values. */
export const noKeys = new SecretBox([], () => Promise.resolve([]))
