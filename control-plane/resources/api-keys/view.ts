import type { ApiKeyDocument } from '../../../shared/contract/schemas/api-key.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sameFields } from '../stored-fields.ts'
import { apiKeyView, type ApiKeyView } from './schemas.ts'

export async function toView({ reads }: ControlPlane, key: ApiKeyDocument): Promise<ApiKeyView> {
  const [userRole, zone] = await Promise.all([
    key.user_id === null ? null : reads.roleOfUser(key.user_id),
    reads.timeZone(key.organization_id),
  ])
  return {
    id: key._id,
    ...sameFields(apiKeyView, key),
    role: userRole ?? key.role,
    uploads_folder: key.uploads_folder ?? null,
    created_at: formatInstant(key.created_at, zone),
    last_used_at: key.last_used_at === undefined ? null : formatInstant(key.last_used_at, zone),
  }
}
