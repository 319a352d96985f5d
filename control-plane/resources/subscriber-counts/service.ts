import { missing } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { toView } from './view.ts'

/** An organization's subscribers by status. The sums are kept, so the cost depends on the number of lists alone. */
export async function subscriberCounts({ reads }: ControlPlane, organizationId: number) {
  const { organization, lists, counts } = await reads.organizationCounts(organizationId)
  if (organization === null) throw missing('organization', organizationId)
  return toView(organization, lists, counts)
}
