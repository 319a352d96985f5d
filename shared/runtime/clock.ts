/**
 * The clock of this process, for logs, timeouts and display. Leases and due times, on which several machines must
 * agree, use the database's clock, `$$NOW`.
 */
export const clock = {
  now: (): Date => new Date(),
  /** For durations: it never runs backwards. */
  monotonicMs: (): number => performance.now(),
}
