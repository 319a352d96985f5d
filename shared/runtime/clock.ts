/**
 * The time of this process. It is for logs, timeouts and display; what several machines must agree on
 * (leases, "is it due?") is decided by the database's clock, `$$NOW`.
 */
export const clock = {
  now: (): Date => new Date(),
  /** Milliseconds that never run backwards, for durations. */
  monotonicMs: (): number => performance.now(),
}
