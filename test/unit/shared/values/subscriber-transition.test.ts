import t from 'tap'
import { subscriberStatuses } from '../../../../shared/contract/schemas/subscriber.ts'
import { subscriberTransition } from '../../../../shared/values/subscriber-transition.ts'

/** By hand from the contract: decisions.md, 2.8, "here and everywhere". */
const table = [
  ['new', 'active', 'none, quota'],
  ['new', 'left', 'begins'],
  ['active', 'active', 'none'],
  ['active', 'left', 'begins, drops reactions'],
  ['left', 'active', 'ends, quota, reactivation'],
  ['left', 'left', 'continues'],
] as const

t.test('what a change of status does, for each pair of statuses', async (t) => {
  const kindOf = (status: string | null) =>
    status === null ? 'new' : status === 'active' ? 'active' : 'left'
  const found: string[] = []
  const wanted: string[] = []
  for (const from of [null, ...subscriberStatuses])
    for (const to of subscriberStatuses) {
      const { removal, needsQuota, isReactivation, dropsReactions } = subscriberTransition(from, to)
      const effects = [
        removal,
        ...(needsQuota ? ['quota'] : []),
        ...(isReactivation ? ['reactivation'] : []),
        ...(dropsReactions ? ['drops reactions'] : []),
      ].join(', ')
      found.push(`${from} to ${to}: ${effects}`)
      const row = table.find(([before, after]) => before === kindOf(from) && after === kindOf(to))
      wanted.push(`${from} to ${to}: ${row?.[2]}`)
    }
  t.same(found, wanted)
  t.equal(found.length, 30, 'six ways to come from, five statuses')
})
