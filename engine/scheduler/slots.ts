/**
 * Whether an organization may take one more of the slots that all organizations share. It may while it has fewer than
 * are free (dynamic thresholds, as switches share their buffers). One organization alone gets half of the slots at
 * most, the next a quarter, and so on, and none more than `maxPerOrganization`. So a new one finds one free. With a
 * fixed bound two organizations could occupy all slots.
 */
export function mayTakeSlot(slots: {
  total: number
  /** Slots in use by all organizations. */
  taken: number
  takenByOrganization: number
  maxPerOrganization: number
}): boolean {
  const { total, taken, takenByOrganization, maxPerOrganization } = slots
  return takenByOrganization < Math.min(maxPerOrganization, total - taken)
}
