import { errorCode } from '../contract/errors.ts'

/** Resolves to `fallback` where the work fails with one of these error codes (`ENOENT`). Throws other errors. */
export function fallbackOn<T, F>(codes: readonly string[], fallback: F, work: Promise<T>): Promise<T | F> {
  return work.catch((error: unknown) => {
    if (codes.includes(errorCode(error))) return fallback
    throw error
  })
}
