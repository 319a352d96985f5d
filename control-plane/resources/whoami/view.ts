import type { OrganizationDocument } from '../../../shared/contract/schemas/organization.ts'
import type { UserDocument } from '../../../shared/contract/schemas/user.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { effectivePermissions } from '../users/view.ts'
import type { WhoamiView } from './schemas.ts'

export const toView = (
  caller: RequestCaller,
  { user, organization }: { user: UserDocument | null; organization: OrganizationDocument },
): WhoamiView => ({
  api_key: { id: caller.keyId, name: caller.keyName },
  user: user === null ? null : { id: user._id, email: user.email },
  organization: {
    id: organization._id,
    name: organization.name,
    time_zone_name: organization.time_zone_name,
  },
  role: caller.role,
  uploads_folder: caller.uploadsFolder,
  permissions: effectivePermissions(caller),
})
