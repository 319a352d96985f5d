import { addCounts, countsByList, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { missing } from '../../api/scope.ts'
import { singleFlight } from '../../api/single-flight.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** With the driver's default, more than a hundred lists would need a second round trip. */
const batchSize = 5_000

/** An organization's subscribers by status. The sums are kept, so the cost depends on the number of lists alone. */
export const subscriberCounts = singleFlight(async ({ database }: ControlPlane, organizationId: number) => {
  const { collections } = database
  const [organization, lists, counted] = await Promise.all([
    collections.organizations.findOne({ _id: organizationId }, { projection: { name: 1 } }),
    collections.mailingLists
      .find({ organization_id: organizationId }, { projection: { name: 1 }, batchSize })
      .sort({ _id: 1 })
      .toArray(),
    countsByList(collections, organizationId),
  ])
  if (organization === null) throw missing('organization', organizationId)
  const perList = lists.map(({ _id, name }) => ({
    mailing_list: { id: _id, name },
    counts: counted.get(_id) ?? noStatusCounts(),
  }))
  return {
    organization: { id: organizationId, name: organization.name },
    counts: perList.reduce((total, { counts }) => addCounts(total, counts), noStatusCounts()),
    mailing_lists: perList,
  }
})
