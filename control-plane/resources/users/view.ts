import type { z } from 'zod'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { permissionValues, type UserDocument } from '../../../shared/contract/schemas/user.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { byPermissionKey, type userView } from './schemas.ts'

type UserView = z.infer<typeof userView>

export async function toView(deps: ControlPlane, user: UserDocument): Promise<UserView> {
  const toLockout = await lockoutViewer(deps, [user])
  return withLockout(user, toLockout(user))
}

export async function toViews(deps: ControlPlane, users: UserDocument[]): Promise<UserView[]> {
  const toLockout = await lockoutViewer(deps, users)
  return users.map((user) => withLockout(user, toLockout(user)))
}

/** Compares with the database's time, by which lockouts are written. */
async function lockoutViewer(
  { database }: ControlPlane,
  users: UserDocument[],
): Promise<(user: UserDocument) => UserView['password_failure_lockout']> {
  const isAnyLocked = users.some((user) => user.locked_until !== null)
  const now = isAnyLocked ? await databaseTime(database.db) : null
  const lockoutEnd = ({ locked_until: until }: UserDocument) =>
    until !== null && now !== null && until > now ? until : null
  const organizationIds = [
    ...new Set(users.filter((user) => lockoutEnd(user) !== null).map((user) => user.organization_id)),
  ]
  const organizations =
    organizationIds.length === 0
      ? []
      : await database.collections.organizations.find({ _id: { $in: organizationIds } }).toArray()
  const zones = new Map(organizations.map(({ _id, time_zone_name }) => [_id, time_zone_name]))
  return (user) => {
    const end = lockoutEnd(user)
    return end === null
      ? { is_locked_out: false, expires_at: null }
      : { is_locked_out: true, expires_at: formatInstant(end, zones.get(user.organization_id) ?? 'UTC') }
  }
}

function withLockout(user: UserDocument, lockout: UserView['password_failure_lockout']): UserView {
  return {
    id: user._id,
    organization_id: user.organization_id,
    full_name: user.full_name,
    email: user.email,
    active: user.active,
    role: user.role,
    show_quick_tips: user.show_quick_tips,
    default_preview_recipients: user.default_preview_recipients,
    terms_and_conditions_version: user.terms_and_conditions_version,
    permissions: effectivePermissions(user),
    password_failure_lockout: lockout,
  }
}

/** Admin roles have every permission. */
const effectivePermissions = ({ role, permissions }: UserDocument): UserView['permissions'] =>
  byPermissionKey((key) => (role === 'standard' ? (permissions[key] ?? []) : [...permissionValues[key]]))
