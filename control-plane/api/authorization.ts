import type { Caller } from '../../shared/store/api-keys.ts'
import { RequestError } from '../../shared/contract/errors.ts'
import { roles, type Role } from '../../shared/contract/schemas/api-key.ts'
import type { Permissions } from '../../shared/contract/schemas/user.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { Endpoint, Need, Permission, PermissionNeed, Scope } from './endpoint.ts'
import { scopedOrganization } from './scope.ts'

/**
 * Who may do what. Each endpoint declares what a caller needs and, where its path doesn't say it, the scope of the
 * records that it works on; the router asks here before any handler runs, and the description prints the same.
 * What depends on a body or a record is asked for by the handler, with `refuseUnless` and `requireNotAbove`.
 */

export function meets(caller: Caller, need: Need): boolean {
  if (need === 'any_key' || caller.role === 'system_admin') return true
  if (need === 'system_admin') return false
  if (need === 'admin') return caller.role === 'organization_admin'
  return permissionsOf(need).some(([key, value]) => caller.permissions[key]?.includes(value) === true)
}

/** Each of them lets a caller in. */
const permissionsOf = ({ permission, or }: PermissionNeed): Permission[] =>
  or === undefined ? [permission] : [permission, or.permission]

/** Throws a 403 for a caller who lacks the need. */
export function refuseUnless(caller: Caller, need: Need): void {
  if (!meets(caller, need)) throw forbidden(`this needs ${describeNeed(need)}`)
}

export function describeNeed(need: Need): string {
  if (need === 'any_key') return "any of the organization's keys"
  if (need === 'admin') return 'the role organization_admin or system_admin'
  if (need === 'system_admin') return 'the role system_admin'
  const { permission, or } = need
  const needed = `the permission ${permission.join('/')}`
  if (or === undefined) return needed
  const other = or.permission.join('/')
  return or.alternativePermission === undefined
    ? `${needed} or ${other}`
    : `${needed} (${other} is enough for ${or.alternativePermission})`
}

/** The need as one word, for programs that read the description. */
export const needText = (need: Need): string =>
  typeof need === 'string'
    ? need
    : permissionsOf(need)
        .map((permission) => permission.join('/'))
        .join(' or ')

/** What the path says, where the endpoint doesn't say it itself. */
export function scopeOf({ path, scope }: Pick<Endpoint, 'path' | 'scope'>): Scope {
  if (scope !== undefined) return scope
  if (/\/organizations?\/all(?:\/|$)|_on_all_organizations/.test(path)) return 'all_organizations'
  if (organizationInPath.test(path)) return 'organization_in_path'
  return path.includes('/:') ? 'record' : 'own_organization'
}

const organizationInPath = /^\/organizations?\/:(\w+)/

const scopeSentences: Record<Scope, string> = {
  own_organization: "It works on the caller's own organization.",
  own_organization_or_given:
    "It works on the caller's own organization; a system admin may give another one as organization_id.",
  own_organization_or_all: "It covers the caller's own organization, for a system admin all of them.",
  organization_in_path:
    "The organization in the path is the caller's own; a system admin may name any. Another one is not_found.",
  record: "Records of other organizations than the caller's are not_found, save for system admins.",
  all_organizations: 'It covers all organizations.',
}

/** What an endpoint needs and works on, in words. */
export const describeAuthorization = (described: Pick<Endpoint, 'path' | 'needs' | 'scope'>): string =>
  `Needs ${describeNeed(described.needs)}. ${scopeSentences[scopeOf(described)]}`

/** What is known before a body is read: role or permission, and that only system admins reach all organizations. */
export function refuseCaller(caller: Caller, described: Endpoint): void {
  refuseUnless(caller, described.needs)
  if (scopeOf(described) === 'all_organizations') refuseUnless(caller, 'system_admin')
}

/** The organization that a call is about: the one in the path, else the caller's own. */
export function organizationOf(
  deps: ControlPlane,
  caller: Caller,
  { path }: Endpoint,
  params: Readonly<Record<string, string>>,
): Promise<number> {
  const name = organizationInPath.exec(path)?.[1]
  return scopedOrganization(deps, caller, name === undefined ? undefined : params[name])
}

/** A role and the permissions that go with it while it is `standard`. */
export interface Powers {
  role: Role
  permissions: Permissions
}

export function outranks(subject: Powers, caller: Powers): boolean {
  if (rankOf(subject.role) !== rankOf(caller.role)) return rankOf(subject.role) > rankOf(caller.role)
  if (caller.role !== 'standard') return false
  return Object.entries(subject.permissions).some(([key, values]) =>
    values.some((value) => caller.permissions[key]?.includes(value) !== true),
  )
}

/** `roles` lists them from most to least. */
const rankOf = (role: Role): number => roles.length - roles.indexOf(role)

/** Nobody makes, changes or deletes a key or a user that may do more than he himself. */
export function requireNotAbove(subject: Powers, caller: Caller, what: 'an API key' | 'a user'): void {
  if (outranks(subject, caller))
    throw forbidden(`nobody makes, changes or deletes ${what} that may do more than he himself`)
}

/**
 * The same of a role that a document asks for, before the document is checked: that rule stands over all others
 * about it.
 */
export function refuseMoreThanAsked(document: unknown, caller: Caller, what: 'an API key' | 'a user'): void {
  const role = (document as { role?: unknown } | null | undefined)?.role
  const asked = roles.find((candidate) => candidate === role)
  if (asked !== undefined) requireNotAbove({ role: asked, permissions: {} }, caller, what)
}

const forbidden = (message: string): RequestError =>
  new RequestError('not_authorized', message, { status: 403 })
