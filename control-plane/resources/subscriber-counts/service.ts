import { addCounts, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { missing } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** An organization's subscribers by status. The sums are kept, so the cost depends on the number of lists alone. */
export async function subscriberCounts({ reads }: ControlPlane, organizationId: number) {
  const { organization, lists, counts: counted } = await reads.organizationCounts(organizationId)
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
}
