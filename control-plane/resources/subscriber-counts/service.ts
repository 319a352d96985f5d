import {
  noStatusChanges,
  subscriberStatuses,
  type SubscriberStatus,
} from '../../../shared/schemas/subscriber.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sharedRead } from '../../shared-read.ts'

type Counts = Record<SubscriberStatus, number>

/**
 * An organization's subscribers by status. Nobody is counted: each list's stripes are summed up, so the cost is that
 * of the lists. They are read in one snapshot. Two stripes may hold what one subscriber added and another took away,
 * and reading them one after the other could show a sum that never was.
 */
export const subscriberCounts = sharedRead(async ({ database }: ControlPlane, organizationId: number) => {
  const { organizations, mailingLists, subscriberCounts: stripes } = database.collections
  const [organization, lists] = await Promise.all([
    organizations.findOne({ _id: organizationId }, { projection: { name: 1 } }),
    mailingLists
      .find({ organization_id: organizationId }, { projection: { name: 1 } })
      .sort({ _id: 1 })
      .toArray(),
  ])
  const sums = Object.fromEntries(subscriberStatuses.map((status) => [status, { $sum: `$${status}` }]))
  const rows = await stripes
    .aggregate<Counts & { _id: number }>(
      [{ $match: { organization_id: organizationId } }, { $group: { _id: '$mailing_list_id', ...sums } }],
      { readConcern: { level: 'snapshot' } },
    )
    .toArray()
  const byList = new Map(rows.map((row) => [row._id, row]))
  const perList = lists.map(({ _id, name }) => ({
    mailing_list: { id: _id, name },
    counts: onlyCounts(byList.get(_id) ?? noStatusChanges()),
  }))
  return {
    organization: { id: organizationId, name: organization!.name },
    counts: perList.reduce((total, { counts }) => added(total, counts), noStatusChanges()),
    mailing_lists: perList,
  }
})

const onlyCounts = (row: Counts): Counts => added(noStatusChanges(), row)

function added(total: Counts, more: Counts): Counts {
  return Object.fromEntries(
    subscriberStatuses.map((status) => [status, total[status] + more[status]]),
  ) as Counts
}
