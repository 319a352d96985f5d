/** The bounds of callbacks; all times in milliseconds. */
export interface CallbackBounds {
  /** Waits after the first failed try, the second, and so on: one try more than there are waits. */
  retryAfterMs: readonly number[]
  connectMs: number
  /** Of a try as a whole, up to the status of its answer. */
  tryMs: number
  /** For which nobody else tries: longer than a try, or two would be under way at once. */
  leaseMs: number
  /** Tries at once. */
  atOnce: number
  /** Of those, to one host: that it is slow, or that very many imports end at once, is its own affair. */
  atOnceOfHost: number
  /** And of one organization, which may give any number of hosts. */
  atOnceOfOrganization: number
}

export const callbackBounds: CallbackBounds = {
  retryAfterMs: [10_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000],
  connectMs: 10_000,
  tryMs: 15_000,
  leaseMs: 30_000,
  atOnce: 64,
  atOnceOfHost: 4,
  atOnceOfOrganization: 16,
}
