/** The bounds of a download; all times in milliseconds. */
export interface DownloadBounds {
  /** Of what comes over the network, and again after decoding and unpacking. */
  bytes: number
  /** From the first try's beginning to the last one's end, pauses not counted. */
  totalMs: number
  /** Waits after the first failed try, the second, and so on: one try more than there are waits. */
  retryAfterMs: readonly number[]
  connectMs: number
  /** Without a byte, in answers as in files. */
  silenceMs: number
  redirects: number
}

export const downloadBounds: DownloadBounds = {
  bytes: 200 * 1000 * 1000,
  totalMs: 15 * 60_000,
  retryAfterMs: [10_000, 50_000],
  connectMs: 30_000,
  silenceMs: 60_000,
  redirects: 5,
}
