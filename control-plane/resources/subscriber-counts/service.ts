import type { Database } from '../../../shared/runtime/database.ts'
import { countsByList } from '../../../shared/store/subscriber-counts.ts'
import { noOrganization } from '../../api/scope.ts'
import { manyDocuments } from '../../store/shared-reads.ts'
import { singleFlight } from '../../api/single-flight.ts'
import { toView } from './view.ts'

export type SubscriberCounts = ReturnType<typeof createSubscriberCounts>

/**
 * Reads an organization's subscribers by status. The sums are kept, so the cost depends on the number of lists alone.
 * Concurrent calls share the view, so that its sums and its JSON are made once.
 */
export const createSubscriberCounts = ({ collections }: Database) =>
  singleFlight(async (organizationId: number) => {
    const [organization, lists, counts] = await Promise.all([
      collections.organizations.findOne({ _id: organizationId }, { projection: { name: 1 } }),
      collections.mailingLists
        .find({ organization_id: organizationId }, { projection: { name: 1 }, batchSize: manyDocuments })
        .sort({ _id: 1 })
        .toArray(),
      countsByList(collections, organizationId),
    ])
    if (organization === null) throw noOrganization(organizationId)
    return toView(organization, lists, counts)
  })
