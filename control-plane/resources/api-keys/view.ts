import type { ApiKeyDocument } from '../../../shared/contract/schemas/api-key.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import { batchedRead } from '../../api/batched-read.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sameFields } from '../stored-fields.ts'
import { apiKeyView, type ApiKeyView } from './schemas.ts'

export async function toView({ database }: ControlPlane, key: ApiKeyDocument): Promise<ApiKeyView> {
  const userRole = key.user_id === null ? null : await roleOfUser(database, key.user_id)
  return { id: key._id, ...sameFields(apiKeyView, key), role: userRole ?? key.role }
}

const roleOfUser = batchedRead(async ({ collections }: Database, ids: number[]) => {
  const users = await collections.users.find({ _id: { $in: ids } }, { projection: { role: 1 } }).toArray()
  return new Map(users.map(({ _id, role }) => [_id, role]))
})
