import type { z } from 'zod'
import { isAdminRole } from '../../../shared/contract/schemas/api-key.ts'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { permissionValues, type UserDocument } from '../../../shared/contract/schemas/user.ts'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sameFields } from '../stored-fields.ts'
import { byPermissionKey, userView } from './schemas.ts'

type UserView = z.infer<typeof userView>

export async function toView(deps: ControlPlane, user: UserDocument): Promise<UserView> {
  return viewAt(deps, user, await timeOfLockouts(deps, [user]))
}

export async function toViews(deps: ControlPlane, users: UserDocument[]): Promise<UserView[]> {
  const now = await timeOfLockouts(deps, users)
  return Promise.all(users.map((user) => viewAt(deps, user, now)))
}

/** The database's time, by which lockouts are written; null where no user was locked out. */
const timeOfLockouts = async ({ database }: ControlPlane, users: UserDocument[]): Promise<Date | null> =>
  users.some((user) => user.locked_until !== null) ? databaseTime(database.db) : null

async function viewAt({ reads }: ControlPlane, user: UserDocument, now: Date | null): Promise<UserView> {
  const { locked_until: until } = user
  const lockoutEnd = until !== null && now !== null && until > now ? until : null
  return {
    id: user._id,
    ...sameFields(userView, user),
    permissions: effectivePermissions(user),
    password_failure_lockout: {
      is_locked_out: lockoutEnd !== null,
      expires_at: lockoutEnd && formatInstant(lockoutEnd, await reads.timeZone(user.organization_id)),
    },
  }
}

/** Admin roles have every permission. */
export const effectivePermissions = ({
  role,
  permissions,
}: Pick<Caller, 'role' | 'permissions'>): UserView['permissions'] =>
  byPermissionKey((key) => (isAdminRole(role) ? [...permissionValues[key]] : [...(permissions[key] ?? [])]))
