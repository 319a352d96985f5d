/** The bounds of callbacks; all times in milliseconds. */
export interface CallbackBounds {
  /** Wait after the first failed attempt, the second, and so on. There is one attempt more than there are waits. */
  retryAfterMs: readonly number[]
  connectMs: number
  /** Timeout of an attempt as a whole, up to the status of the answer. */
  attemptTimeoutMs: number
  /**
   * Lease of an attempt. It is longer than `attemptTimeoutMs`, because otherwise two attempts could be in flight at
   * once.
   */
  leaseMs: number
  /** Attempts in flight at once. */
  maxInFlight: number
  /** Attempts to one host at once, so that a slow host or one with many callbacks doesn't delay the others. */
  maxInFlightOfHost: number
  /** Attempts of one organization at once; it may name any number of hosts. */
  maxInFlightOfOrganization: number
}

export const callbackBounds: CallbackBounds = {
  retryAfterMs: [10_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000],
  connectMs: 10_000,
  attemptTimeoutMs: 15_000,
  leaseMs: 30_000,
  maxInFlight: 64,
  maxInFlightOfHost: 4,
  maxInFlightOfOrganization: 16,
}
