import type { Caller } from '../../shared/store/api-keys.ts'
import { forbidden, type Refusal } from './refusal.ts'
import { roles, type Role } from '../../shared/contract/schemas/api-key.ts'
import type { Permissions } from '../../shared/contract/schemas/user.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { Endpoint, Need, Permission, PermissionNeed, Scope } from './endpoint.ts'
import { scopedOrganization } from './scope.ts'
import { isHash } from './validation.ts'

/**
 * Authorization. Each endpoint declares what a caller needs and, where its path doesn't show it, the scope of the
 * records that it works on. The router checks both here before any handler runs, and the API description prints the
 * same values. Checks that depend on a body or a record are made by the handler, with `refuseUnless` and
 * `requireNotAbove`. A check in each handler could be forgotten, and a table of paths would say each path twice. A unit
 * test has the contract's table by hand, because one made of these values would be wrong where they are.
 */

export function meetsNeed(caller: Caller, need: Need): boolean {
  if (need === 'every_key' || caller.role === 'system_admin') return true
  if (caller.role === 'uploads') return typeof need !== 'string' && need.orRole === 'uploads'
  if (need === 'any_key') return true
  if (need === 'system_admin') return false
  if (need === 'admin') return caller.role === 'organization_admin'
  return sufficientPermissions(need).some(([key, value]) => caller.permissions[key]?.includes(value) === true)
}

const sufficientPermissions = ({ permission, or }: PermissionNeed): Permission[] =>
  or === undefined ? [permission] : [permission, or.permission]

/** Throws a 403 for a caller that doesn't meet the need. */
export function refuseUnless(caller: Caller, need: Need): void {
  if (!meetsNeed(caller, need)) throw lacksNeed(need)()
}

/** The 403 of a caller that lacks this need. */
export const lacksNeed = (need: Need): Refusal<[]> => forbidden(`this needs ${describeNeed(need)}`)

export function describeNeed(need: Need): string {
  if (need === 'every_key') return "any of the organization's keys"
  if (need === 'any_key') return "any of the organization's keys but those of the role uploads"
  if (need === 'admin') return 'the role organization_admin or system_admin'
  if (need === 'system_admin') return 'the role system_admin'
  const { permission, or, orRole } = need
  const needed = `the permission ${permission.join('/')}`
  if (orRole !== undefined) return `${needed} or the role ${orRole}`
  if (or === undefined) return needed
  const other = or.permission.join('/')
  return or.forBodies === undefined
    ? `${needed} or ${other}`
    : `${needed} (${other} is enough for ${or.forBodies})`
}

/** The need in a short form, for programs that read the API description. */
export const needText = (need: Need): string =>
  typeof need === 'string'
    ? need
    : [
        ...sufficientPermissions(need).map((permission) => permission.join('/')),
        ...(need.orRole === undefined ? [] : [`role ${need.orRole}`]),
      ].join(' or ')

/** The scope that an endpoint declares, else the one that its path implies. */
export function endpointScope({ path, scope }: Pick<Endpoint, 'path' | 'scope'>): Scope {
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

/** Describes what an endpoint needs and which records it works on, in a sentence each. */
export const describeAuthorization = (described: Pick<Endpoint, 'path' | 'needs' | 'scope'>): string =>
  `Needs ${describeNeed(described.needs)}. ${scopeSentences[endpointScope(described)]}`

/**
 * Makes the checks that need no body: the role or permission, and that only system admins access all organizations.
 * Throws a 403.
 */
export function refuseCaller(caller: Caller, described: Endpoint): void {
  refuseUnless(caller, described.needs)
  if (endpointScope(described) === 'all_organizations') refuseUnless(caller, 'system_admin')
}

/** The organization that a call is about: the one in the path, else the caller's own. */
export function findCallOrganization(
  deps: ControlPlane,
  caller: Caller,
  { path }: Endpoint,
  params: Readonly<Record<string, string>>,
): Promise<number> {
  const name = organizationInPath.exec(path)?.[1]
  return scopedOrganization(deps, caller, name === undefined ? undefined : params[name])
}

/** A role, and the permissions that count while the role is `standard`. */
interface Powers {
  role: Role
  permissions: Permissions
}

export function outranks(subject: Powers, caller: Powers): boolean {
  if (rank(subject.role) !== rank(caller.role)) return rank(subject.role) > rank(caller.role)
  if (caller.role !== 'standard') return false
  return Object.entries(subject.permissions).some(([key, values]) =>
    values.some((value) => caller.permissions[key]?.includes(value) !== true),
  )
}

/** `roles` begins with the most powerful role. */
const rank = (role: Role): number => roles.length - roles.indexOf(role)

/** The 403 of a caller that would create, change or delete a key or a user with more permissions than its own. */
export const moreThanCaller = (what: 'an API key' | 'a user'): Refusal<[]> =>
  forbidden(`you can't create, change or delete ${what} with more permissions than your own`)

/** Throws `refusal` when the subject has more permissions than the caller. */
export function requireNotAbove(subject: Powers, caller: Caller, refusal: Refusal<[]>): void {
  if (outranks(subject, caller)) throw refusal()
}

/** Applies `requireNotAbove` to the role that an unchecked document asks for. */
export function requireRequestedRoleNotAbove(document: unknown, caller: Caller, refusal: Refusal<[]>): void {
  const role = isHash(document) ? document['role'] : undefined
  const requestedRole = roles.find((candidate) => candidate === role)
  if (requestedRole !== undefined) requireNotAbove({ role: requestedRole, permissions: {} }, caller, refusal)
}
