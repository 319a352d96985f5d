import t from 'tap'
import { sortRoundRobin } from '../../../../engine/scheduler/organization-rounds.ts'
import { mayTakeSlot } from '../../../../engine/scheduler/slots.ts'

/** How organizations share the slots of an engine. */

const entries = (...organizations: number[]) =>
  organizations.map((organization_id, i) => ({ organization_id, i }))
const order = (found: { i: number }[]): number[] => found.map(({ i }) => i)

t.test('organizations are served in rounds', async (t) => {
  t.same(
    order(sortRoundRobin(entries(1, 1, 1, 2, 2, 3))),
    [0, 3, 5, 1, 4, 2],
    'each one’s first, then each one’s second',
  )
  t.same(order(sortRoundRobin(entries(2, 1, 2, 1))), [0, 1, 2, 3], 'within a round the order is kept')
  t.same(order(sortRoundRobin(entries())), [])
  const inHand = (organization: number): number => (organization === 1 ? 2 : 0)
  t.same(
    order(sortRoundRobin(entries(1, 2, 2, 2, 2), inHand)),
    [1, 2, 0, 3, 4],
    'what is in hand counts as rounds',
  )
})

/** Organizations take slots in turn until no further one may. */
function shareOut(total: number, organizations: number, maxPerOrganization: number): number[] {
  const taken = Array<number>(organizations).fill(0)
  for (let i = 0; i < organizations; i += 1) {
    const all = (): number => taken.reduce((sum, own) => sum + own, 0)
    while (mayTakeSlot({ total, taken: all(), takenByOrganization: taken[i]!, maxPerOrganization }))
      taken[i]! += 1
  }
  return taken
}

t.test('organizations share slots', async (t) => {
  t.same(shareOut(8, 1, 8), [4], 'one alone gets half')
  t.same(shareOut(8, 3, 8), [4, 2, 1], 'the next one half of what is left')
  t.same(shareOut(64, 4, 16), [16, 16, 16, 8], 'up to a bound')
  t.same(shareOut(16, 6, 4), [4, 4, 4, 2, 1, 1], 'until none is left')
  t.same(shareOut(1, 2, 1), [1, 0])
})
