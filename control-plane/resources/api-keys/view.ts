import type { ApiKeyDocument, Role } from '../../../shared/contract/schemas/api-key.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { ApiKeyView } from './schemas.ts'

export async function toView({ database }: ControlPlane, key: ApiKeyDocument): Promise<ApiKeyView> {
  if (key.user_id === null) return withRole(key, key.role)
  const user = await database.collections.users.findOne({ _id: key.user_id }, { projection: { role: 1 } })
  return withRole(key, user?.role ?? key.role)
}

export async function toViews({ database }: ControlPlane, keys: ApiKeyDocument[]): Promise<ApiKeyView[]> {
  const userIds = [...new Set(keys.map((key) => key.user_id).filter((id) => id !== null))]
  const users =
    userIds.length === 0
      ? []
      : await database.collections.users
          .find({ _id: { $in: userIds } }, { projection: { role: 1 } })
          .toArray()
  const userRoles = new Map<number | null, Role>(users.map((user) => [user._id, user.role]))
  return keys.map((key) => withRole(key, userRoles.get(key.user_id) ?? key.role))
}

const withRole = (
  { _id, organization_id, name, active, user_id }: ApiKeyDocument,
  role: Role,
): ApiKeyView => ({ id: _id, organization_id, name, role, active, user_id })
