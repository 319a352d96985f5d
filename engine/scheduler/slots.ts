/**
 * Whether an organization may take one more of the slots that all organizations share: while it has fewer than are free
 * (dynamic thresholds, as switches share their buffers). One alone gets half of them, the next a quarter, and so on, so
 * that a newcomer finds one free. Chosen against a fixed bound, with which two organizations could hold all slots.
 */
export function mayTakeSlot(slots: {
  total: number
  /** By all organizations. */
  taken: number
  takenByOrganization: number
  maxPerOrganization: number
}): boolean {
  const { total, taken, takenByOrganization: own, maxPerOrganization } = slots
  return own < Math.min(maxPerOrganization, total - taken)
}
