import type { OrganizationDocument } from '../../../shared/contract/schemas/organization.ts'
import type { UserDocument } from '../../../shared/contract/schemas/user.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { noOrganization } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** The user of the caller's key, if any, and its organization. */
export async function findCallerRecords(
  { database: { collections } }: ControlPlane,
  { organizationId, userId }: RequestCaller,
): Promise<{ user: UserDocument | null; organization: OrganizationDocument }> {
  const [user, organization] = await Promise.all([
    userId === null ? null : collections.users.findOne({ _id: userId }),
    collections.organizations.findOne({ _id: organizationId }),
  ])
  if (organization === null) throw noOrganization(organizationId)
  return { user, organization }
}
