import { hourMs, minuteMs } from '../../../shared/values/durations.ts'

/** The bounds of callbacks; all times in milliseconds. */
export const callbackBounds = {
  /** Wait after the first failed attempt, the second, and so on. There is one attempt more than there are waits. */
  retryAfterMs: [10_000, minuteMs, 5 * minuteMs, 30 * minuteMs, 2 * hourMs],
  connectMs: 10_000,
  /** Timeout of an attempt as a whole, up to the status of the answer. */
  attemptTimeoutMs: 15_000,
  /**
   * Lease of an attempt. It is longer than `attemptTimeoutMs`, because otherwise two attempts could be in flight at
   * once.
   */
  leaseMs: 30_000,
  /** Attempts in flight at once. */
  maxInFlight: 64,
  /** Attempts to one host at once, so that a slow host or one with many callbacks doesn't delay the others. */
  maxInFlightOfHost: 4,
  /** Attempts of one organization at once; it may name any number of hosts. */
  maxInFlightOfOrganization: 16,
}

export type CallbackBounds = typeof callbackBounds
