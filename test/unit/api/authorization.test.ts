import t from 'tap'
import { describeNeed, isMoreThan, meets, scopeOf } from '../../../control-plane/api/authorization.ts'
import type { Need, Permission, PermissionNeed, Scope } from '../../../control-plane/api/endpoint.ts'
import { endpoints } from '../../../control-plane/endpoints.ts'
import type { Caller } from '../../../shared/api-keys.ts'
import type { Role } from '../../../shared/schemas/api-key.ts'
import { permissionValues } from '../../../shared/schemas/user.ts'

/**
 * The table of who may do what, written a second time, from the contract: methods and whole paths (`*` is one
 * segment, `**` any number) with what they need. The first line that fits counts.
 */
const contract: [methods: string, path: string, needs: string][] = [
  ['POST', '/organizations', 'system_admin'],
  ['PUT', '/organizations/*', 'system_admin'],
  ['GET', '/organizations/all/subscribers_by_email/*', 'system_admin'],
  ['GET', '/jobs/*_on_all_organizations', 'system_admin'],

  ['GET POST', '/users', 'admin'],
  ['GET', '/organizations/*/users', 'admin'],
  ['POST', '/users/authenticate', 'admin'],
  ['GET PUT DELETE', '/users/*', 'admin'],
  ['PUT', '/users/*/reset_password_failure_lockout', 'admin'],
  ['GET POST PUT DELETE', '**/api_keys', 'admin'],
  ['GET POST PUT DELETE', '**/api_keys/*', 'admin'],
  ['POST', '/outbox/*', 'admin'],
  ['POST', '/delivery_events', 'admin'],

  ['GET', '**/subscriber_imports', 'subscriber/read or subscriber/import'],
  ['GET', '/subscriber_imports/*', 'subscriber/read or subscriber/import'],
  ['GET', '/subscriber_imports/*/events', 'subscriber/read or subscriber/import'],
  ['GET', '/subscriber_imports/*/logs/*', 'subscriber/read'],
  ['POST', '**/subscriber_imports', 'subscriber/import'],
  ['POST', '**/subscriber_imports/**', 'subscriber/import'],

  ['GET', '**/subscribers', 'subscriber/read'],
  ['GET', '**/subscribers/*', 'subscriber/read'],
  ['GET', '**/subscribers_by_email/*', 'subscriber/read'],
  ['POST', '/subscribers/unsubscribe', 'subscriber/update'],
  ['POST', '**/subscribers/*/trigger_autoresponders', 'subscriber/update'],
  ['POST', '**/subscribers', 'subscriber/create'],
  ['PUT', '**/subscribers/*', 'subscriber/update'],
  ['DELETE', '**/subscribers/*', 'subscriber/delete'],

  ['GET', '/mailing_lists/*/autoresponders', 'any_key'],
  ['POST', '/mailing_lists/*/autoresponders', 'autoresponder/create'],
  ['PUT', '/mailing_lists/*/autoresponders/*', 'autoresponder/update or autoresponder/update_state'],
  ['GET', '/mailing_lists/*/autoresponders/*/statistics', 'autoresponder/read_stats'],
  ['GET', '**/templates', 'any_key'],
  ['GET', '/templates/*', 'any_key'],
  ['POST', '/mailing_lists/*/templates', 'campaign/template/create'],
  ['PUT', '/templates/*', 'campaign/template/update'],

  ['GET', '**/subscriber_counts', 'any_key'],
  ['GET', '**/jobs/*', 'any_key'],
  ['GET', '/mailing_lists/*/reactions', 'any_key'],
  ['GET', '/organizations', 'any_key'],
  ['GET', '/organizations/*', 'any_key'],
  ['GET', '/mailing_lists', 'any_key'],
  ['GET', '/organizations/*/mailing_lists', 'any_key'],
  ['GET', '/mailing_lists/*', 'any_key'],
  ['POST', '/mailing_lists', 'mailing_list/create'],
  ['PUT', '/mailing_lists/*', 'mailing_list/update'],
  ['GET', '/mailing_lists/*/custom_fields', 'any_key'],
  ['POST', '/mailing_lists/*/custom_fields', 'custom_field/create'],
  ['PUT', '/mailing_lists/*/custom_fields/*', 'custom_field/update'],
  ['DELETE', '/mailing_lists/*/custom_fields/*', 'custom_field/delete'],
  ['GET', '/mailing_lists/*/confirmation_forms', 'any_key'],
  ['POST', '/mailing_lists/*/confirmation_forms', 'web_form/create'],
]

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/\*\*|\*/g, (stars) => (stars === '**' ? '.*' : '[^/]+'))}$`)
const textOf = (needs: Need): string =>
  typeof needs === 'string'
    ? needs
    : permissionsIn(needs)
        .map(([key, value]) => `${key}/${value}`)
        .join(' or ')
const permissionsIn = ({ permission, or }: PermissionNeed): Permission[] =>
  or === undefined ? [permission] : [permission, or.permission]

t.test('every endpoint needs what the contract says', (t) => {
  for (const { method, path, needs } of endpoints) {
    const line = contract.find(
      ([methods, pattern]) =>
        methods.split(' ').includes(method.toUpperCase()) && patternOf(pattern).test(path),
    )
    t.equal(textOf(needs), line?.[2], `${method} ${path}`)
  }
  t.end()
})

t.test('every permission that is needed is one that a user can hold', (t) => {
  for (const { needs, path } of endpoints) {
    if (typeof needs === 'string') continue
    const values: Record<string, readonly string[]> = permissionValues
    for (const [key, value] of permissionsIn(needs))
      t.ok(values[key]?.includes(value), `${path} needs ${key}/${value}`)
  }
  t.end()
})

t.test('the scope is what the path says, or what is declared', (t) => {
  const scopes: [path: string, scope: Scope][] = [
    ['/jobs/all', 'own_organization'],
    ['/mailing_lists/:id', 'record'],
    ['/organizations/:organization_id/users', 'organization_in_path'],
    ['/organization/:organization_id/subscriber_counts', 'organization_in_path'],
    ['/organizations/all/subscribers_by_email/:email', 'all_organizations'],
    ['/jobs/unfinished_on_all_organizations', 'all_organizations'],
  ]
  for (const [path, scope] of scopes) t.equal(scopeOf({ path }), scope, path)
  t.equal(scopeOf({ path: '/users', scope: 'own_organization_or_all' }), 'own_organization_or_all')
  t.end()
})

t.test('roles hold what they hold', (t) => {
  const caller = (role: Role, permissions = {}): Caller => ({
    keyId: 1,
    organizationId: 1,
    role,
    permissions: role === 'standard' ? permissions : permissionValues,
    userId: null,
  })
  const importing: Need = { permission: ['subscriber', 'import'] }
  const everything: Need[] = ['any_key', importing, 'admin', 'system_admin']
  const pausing: Need = {
    permission: ['autoresponder', 'update'],
    or: { permission: ['autoresponder', 'update_state'], enoughFor: 'pausing' },
  }
  const mayPause = (...values: string[]) => meets(caller('standard', { autoresponder: values }), pausing)
  t.same([mayPause('update'), mayPause('update_state'), mayPause('create', 'delete')], [true, true, false])
  t.match(describeNeed(pausing), /autoresponder\/update .*autoresponder\/update_state is enough for pausing/)
  const held = (who: Caller) => everything.filter((need) => meets(who, need))
  t.same(held(caller('standard')), ['any_key'])
  t.same(held(caller('standard', { subscriber: ['import'] })), ['any_key', importing])
  t.same(held(caller('standard', { subscriber: ['read'] })), ['any_key'])
  t.same(held(caller('organization_admin')), ['any_key', importing, 'admin'])
  t.same(held(caller('system_admin')), everything)

  const reader = caller('standard', { subscriber: ['read'] })
  t.equal(isMoreThan({ role: 'standard', permissions: { subscriber: ['read'] } }, reader), false)
  t.equal(isMoreThan({ role: 'standard', permissions: { subscriber: ['read', 'export'] } }, reader), true)
  t.equal(isMoreThan({ role: 'organization_admin', permissions: {} }, reader), true)
  t.equal(isMoreThan(reader, caller('organization_admin')), false)
  t.equal(isMoreThan(caller('system_admin'), caller('organization_admin')), true)
  t.end()
})
