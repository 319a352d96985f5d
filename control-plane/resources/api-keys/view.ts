import type { ApiKeyDocument } from '../../../shared/contract/schemas/api-key.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sameFields } from '../stored-fields.ts'
import { apiKeyView, type ApiKeyView } from './schemas.ts'

export async function toView({ reads }: ControlPlane, key: ApiKeyDocument): Promise<ApiKeyView> {
  const userRole = key.user_id === null ? null : await reads.roleOfUser(key.user_id)
  return {
    id: key._id,
    ...sameFields(apiKeyView, key),
    role: userRole ?? key.role,
    uploads_folder: key.uploads_folder ?? null,
  }
}
