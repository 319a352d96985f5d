/** The bounds of a download; all times in milliseconds. */
export interface DownloadBounds {
  /** Of the bytes from the network, and again of the decoded and unpacked bytes. */
  bytes: number
  /** From the start of the first attempt to the end of the last one; pauses of the import do not count. */
  totalMs: number
  /** Waits after the first failed attempt, the second, and so on. There is one more attempt than waits. */
  retryAfterMs: readonly number[]
  connectMs: number
  /** Without a byte, while waiting for an answer and while reading a file. */
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
