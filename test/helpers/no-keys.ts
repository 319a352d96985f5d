import { SecretBox } from '../../shared/runtime/secret-box.ts'

/** For parts that are given nothing that is encrypted. */
export const noKeys = new SecretBox([], () => Promise.resolve([]))
