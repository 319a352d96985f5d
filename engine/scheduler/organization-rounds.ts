/**
 * Sorts entries round-robin by organization: each organization's first entry, then each one's second, and so on. Within a
 * round the order is kept. An organization with n pieces of running work, as `countRunning` says, begins in round n.
 */
export function sortRoundRobin<T extends { organization_id: number }>(
  entries: readonly T[],
  countRunning: (organizationId: number) => number = () => 0,
): T[] {
  const next = new Map<number, number>()
  const rounds = entries.map((entry) => {
    const round = next.get(entry.organization_id) ?? countRunning(entry.organization_id)
    next.set(entry.organization_id, round + 1)
    return { entry, round }
  })
  return rounds.sort((a, b) => a.round - b.round).map(({ entry }) => entry)
}
