import type { z } from 'zod'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { permissionValues, type UserDocument } from '../../../shared/contract/schemas/user.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { userView } from './schemas.ts'

type UserView = z.infer<typeof userView>

export async function toView(deps: ControlPlane, user: UserDocument): Promise<UserView> {
  return (await toViews(deps, [user]))[0]!
}

export async function toViews({ database }: ControlPlane, users: UserDocument[]): Promise<UserView[]> {
  const isAnyLocked = users.some((user) => user.locked_until !== null)
  const now = isAnyLocked ? await databaseTime(database.db) : null
  const isLocked = ({ locked_until: until }: UserDocument) => until !== null && now !== null && until > now
  const organizationIds = [...new Set(users.filter(isLocked).map((user) => user.organization_id))]
  const organizations =
    organizationIds.length === 0
      ? []
      : await database.collections.organizations.find({ _id: { $in: organizationIds } }).toArray()
  const zones = new Map(organizations.map(({ _id, time_zone_name }) => [_id, time_zone_name]))
  return users.map((user) => ({
    id: user._id,
    organization_id: user.organization_id,
    full_name: user.full_name,
    email: user.email,
    active: user.active,
    role: user.role,
    show_quick_tips: user.show_quick_tips,
    default_preview_recipients: user.default_preview_recipients,
    terms_and_conditions_version: user.terms_and_conditions_version,
    permissions: permissionsInForce(user),
    password_failure_lockout: isLocked(user)
      ? {
          is_locked_out: true,
          expires_at: formatInstant(user.locked_until!, zones.get(user.organization_id) ?? 'UTC'),
        }
      : { is_locked_out: false, expires_at: null },
  }))
}

function permissionsInForce({ role, permissions }: UserDocument): UserView['permissions'] {
  const entries = Object.entries(permissionValues).map(([key, values]) => [
    key,
    role === 'standard' ? (permissions[key] ?? []) : [...values],
  ])
  return Object.fromEntries(entries) as UserView['permissions']
}
