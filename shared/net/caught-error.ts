/** The `code` of a caught error, as the system, TLS and undici set it (`ENOENT`); empty where it has no such text. */
export function errorCode(error: unknown): string {
  const hasCode = typeof error === 'object' && error !== null && 'code' in error
  return hasCode && typeof error.code === 'string' ? error.code : ''
}

/** Wraps a caught value that is no Error, for callers that need one. */
export const toError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown))
