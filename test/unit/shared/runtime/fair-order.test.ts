import t from 'tap'
import { FairOrder } from '../../../../shared/runtime/fair-order.ts'

const entry = (id: number, organization_id: number) => ({ id, organization_id })
const entries = (...organizations: number[]) => organizations.map((organization, i) => entry(i, organization))

/** Runs one piece of work after the other, and returns the organizations in the order in which they had one. */
function serve(order: FairOrder, waiting: { organization_id: number }[], costs: number[]): number[] {
  return costs.map((cost) => {
    const next = order.next(waiting)!
    order.begin(next)(cost)
    return next.organization_id
  })
}

t.test('a small import of another organization is next, however much the first one has queued', async (t) => {
  const order = new FairOrder({ atOnce: 2 })
  const large = entry(1, 10)
  const small = entry(2, 20)
  for (let i = 0; i < 50; i += 1) {
    t.equal(order.next([large]), large)
    order.begin(large)(13_000)
  }
  const endLarge = order.begin(large)
  t.equal(order.next([large, small]), small, 'the newcomer')
  endLarge(13_000)
  t.equal(order.next([large, small]), small)
  order.begin(small)(500)
  t.equal(order.next([large, small]), small, 'starts where the others are, not at nothing')
  order.begin(small)(13_000)
  t.equal(order.next([large, small]), large)
})

t.test('a hundred imports of one organization weigh no more than one of another', async (t) => {
  const order = new FairOrder({ atOnce: 1 })
  const waiting = [...Array.from({ length: 100 }, (_, i) => entry(i + 1, 10)), entry(500, 20)]
  const served = serve(order, waiting, Array<number>(200).fill(1_000))
  t.equal(served.filter((organization) => organization === 10).length, 100)
  t.equal(served.filter((organization) => organization === 20).length, 100)
})

t.test('who pays more for a piece of work gets fewer', async (t) => {
  const order = new FairOrder({ atOnce: 1 })
  const served = { 10: 0, 20: 0 }
  for (let i = 0; i < 110; i += 1) {
    const id = order.next(entries(10, 20))!.organization_id as 10 | 20
    order.begin({ organization_id: id })(id === 10 ? 10 : 1)
    served[id] += 1
  }
  t.same(served, { 10: 10, 20: 100 })
})

t.test('of one organization the work that is first in its order is next', async (t) => {
  const order = new FairOrder({ atOnce: 1 })
  t.equal(order.next([entry(3, 10), entry(4, 10)])?.id, 3)
  t.equal(order.next([entry(4, 10)])?.id, 4)
  t.same(beginAll(order, []), [])
  const end = order.begin(entry(3, 10))
  t.equal(order.next([entry(4, 10)]), undefined, 'no slot is free')
  end(1)
  t.equal(order.next([entry(4, 10)])?.id, 4)
})

/** Begins all work, none of which ends; resolves to its order. */
function beginAll(order: FairOrder, waiting: { id: number; organization_id: number }[]): number[] {
  const begun: number[] = []
  for (;;) {
    const next = order.next(waiting)
    if (next === undefined) return begun
    order.begin(next)
    begun.push(next.id)
    waiting.splice(waiting.indexOf(next), 1)
  }
}

t.test('organizations are served in rounds', async (t) => {
  const order = () => new FairOrder({ atOnce: 100 })
  t.same(
    beginAll(order(), entries(1, 1, 1, 2, 2, 3)),
    [0, 3, 5, 1, 4, 2],
    'each one’s first, then each one’s second',
  )
  t.same(beginAll(order(), entries(2, 1, 2, 1)), [0, 1, 2, 3], 'within a round the order is kept')
  t.same(beginAll(order(), []), [])
  const busy = order()
  for (const work of entries(1, 1)) busy.begin(work)
  t.same(beginAll(busy, entries(1, 2, 2, 2, 2)), [1, 2, 0, 3, 4], 'what is in hand counts as rounds')
})

/** Organizations take slots in turn until no further one may. */
function shareOut(atOnce: number, organizations: number, ofOrganization: number): number[] {
  const order = new FairOrder({ atOnce, ofOrganization })
  return Array.from({ length: organizations }, (_, id) => {
    let taken = 0
    for (; order.next([entry(taken, id)]) !== undefined; taken += 1) order.begin(entry(taken, id))
    return taken
  })
}

t.test('organizations share slots', async (t) => {
  t.same(shareOut(8, 1, 8), [4], 'one alone gets half')
  t.same(shareOut(8, 3, 8), [4, 2, 1], 'the next one half of what is left')
  t.same(shareOut(64, 4, 16), [16, 16, 16, 8], 'up to a bound')
  t.same(shareOut(16, 6, 4), [4, 4, 4, 2, 1, 1], 'until none is left')
  t.same(shareOut(1, 2, 1), [1, 0])
})

t.test('work without a cost starves nobody, and who was away has no credit', async (t) => {
  const order = new FairOrder({ atOnce: 1 })
  t.same(serve(order, entries(1, 2, 3), [0, 0, 0, 0, 0, 0]), [1, 2, 3, 1, 2, 3])
  serve(order, entries(1), Array<number>(100).fill(10))
  t.same(serve(order, entries(1, 2), [10, 10, 10, 10, 10, 10]).filter((id) => id === 2).length, 3)
})

t.test('a short absence between two pieces of work is no way to jump the queue', async (t) => {
  const order = new FairOrder({ atOnce: 1 })
  const served: number[] = []
  for (let i = 0; i < 12; i += 1) {
    // The first one asks again as soon as its work has ended, and never waits beside itself.
    const next = order.next(entries(1, 2))!
    const end = order.begin(next)
    order.next(entries(next.organization_id === 1 ? 2 : 1))
    end(next.organization_id === 1 ? 50 : 10)
    served.push(next.organization_id)
  }
  t.equal(served.filter((id) => id === 1).length, 2)
})

t.test('an organization is forgotten after hundreds of others have begun work', async (t) => {
  const order = new FairOrder({ atOnce: 1 })
  serve(order, entries(1), [1_000])
  serve(order, entries(2), [500])
  t.equal(order.next(entries(1, 2))?.organization_id, 2)
  for (let id = 1_001; id <= 1_255; id += 1) serve(order, entries(id), [1])
  t.equal(order.next(entries(1, 2))?.organization_id, 2, 'it is still known')
  serve(order, entries(2), [500])
  for (let id = 2_001; id <= 2_300; id += 1) serve(order, entries(id), [1])
  t.equal(order.next(entries(1, 3))?.organization_id, 1, 'both are new')
})
