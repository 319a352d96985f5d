/**
 * Round-robin over organizations: each organization's first entry, then each one's second, and so on; within a round
 * the order is kept. `inHand` says how many an organization has in hand already: its rounds begin behind those.
 */
export function inRounds<T extends { organization_id: number }>(
  entries: readonly T[],
  inHand: (organizationId: number) => number = () => 0,
): T[] {
  const next = new Map<number, number>()
  const rounds = entries.map((entry) => {
    const round = next.get(entry.organization_id) ?? inHand(entry.organization_id)
    next.set(entry.organization_id, round + 1)
    return { entry, round }
  })
  return rounds.sort((a, b) => a.round - b.round).map(({ entry }) => entry)
}
