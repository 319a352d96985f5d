import { decimalMegabyte } from '../values/byte-sizes.ts'

/** The bounds of a download; all times in milliseconds. */
export interface DownloadBounds {
  /** Limits the bytes from the network, and again the decoded and unpacked bytes. */
  bytes: number
  /**
   * Runs from the start of the first attempt to the end of the last one, as a stored time. Pauses of the import do not
   * count. An attempt that a death, a stop or a pause interrupted isn't counted, so that only this time bounds a file that
   * kills engines.
   */
  totalMs: number
  /** Waits after the first failed attempt, the second, and so on. There is one more attempt than waits. */
  retryAfterMs: readonly number[]
  connectMs: number
  /** The maximum time without a byte, before an answer and within a file. */
  silenceMs: number
  redirects: number
}

export const downloadBounds: DownloadBounds = {
  bytes: 200 * decimalMegabyte,
  totalMs: 15 * 60_000,
  retryAfterMs: [10_000, 50_000],
  connectMs: 30_000,
  silenceMs: 60_000,
  redirects: 5,
}
