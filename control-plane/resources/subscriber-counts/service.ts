import {
  noStatusChanges,
  subscriberStatuses,
  type SubscriberStatus,
} from '../../../shared/schemas/subscriber.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sharedRead } from '../../api/shared-read.ts'

/** The default would fetch a second batch for more than a hundred lists. */
const batchSize = 5_000

type Counts = Record<SubscriberStatus, number>

/**
 * An organization's subscribers by status. Nobody is counted: each list's stripes are summed up, so the cost is that
 * of the lists. They are read in one snapshot. Two stripes may hold what one subscriber added and another took away,
 * and reading them one after the other could show a sum that never was.
 */
export const subscriberCounts = sharedRead(async ({ database }: ControlPlane, organizationId: number) => {
  const { organizations, mailingLists, subscriberCounts: stripes } = database.collections
  const sums = Object.fromEntries(subscriberStatuses.map((status) => [status, { $sum: `$${status}` }]))
  const [organization, lists, rows] = await Promise.all([
    organizations.findOne({ _id: organizationId }, { projection: { name: 1 } }),
    mailingLists
      .find({ organization_id: organizationId }, { projection: { name: 1 }, batchSize })
      .sort({ _id: 1 })
      .toArray(),
    stripes
      .aggregate<Counts & { _id: number }>(
        [{ $match: { organization_id: organizationId } }, { $group: { _id: '$mailing_list_id', ...sums } }],
        { readConcern: { level: 'snapshot' }, batchSize },
      )
      .toArray(),
  ])
  const byList = new Map(rows.map((row) => [row._id, row]))
  const perList = lists.map(({ _id, name }) => ({
    mailing_list: { id: _id, name },
    counts: onlyCounts(byList.get(_id) ?? noStatusChanges()),
  }))
  return {
    organization: { id: organizationId, name: organization!.name },
    counts: perList.reduce((total, { counts }) => add(total, counts), noStatusChanges()),
    mailing_lists: perList,
  }
})

const onlyCounts = (row: Counts): Counts => add(noStatusChanges(), row)

function add(total: Counts, more: Counts): Counts {
  for (const status of subscriberStatuses) total[status] += more[status]
  return total
}
