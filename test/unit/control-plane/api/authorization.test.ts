import t from 'tap'
import {
  describeAuthorization,
  describeNeed,
  outranks,
  meetsNeed,
  needText,
  findCallOrganization,
  refuseCaller,
  moreThanCaller,
  requireNotAbove,
  requireRequestedRoleNotAbove,
  refuseUnless,
  endpointScope,
} from '../../../../control-plane/api/authorization.ts'
import type {
  Endpoint,
  Need,
  Permission,
  PermissionNeed,
  Scope,
} from '../../../../control-plane/api/endpoint.ts'
import type { ControlPlane } from '../../../../control-plane/control-plane.ts'
import { endpoints } from '../../../../control-plane/endpoints.ts'
import type { Caller } from '../../../../shared/store/api-keys.ts'
import type { Role } from '../../../../shared/contract/schemas/api-key.ts'
import { permissionValues } from '../../../../shared/contract/schemas/user.ts'
import type { Records } from '../../../integration/who-sees-whose/records.ts'
import { rowsFor } from '../../../integration/who-sees-whose/rows.ts'

/** Rows of no organization in particular: what each endpoint needs, written by hand from the contract. */
const noRecords = { takenMessage: {} } as Records
const contract = rowsFor(noRecords, noRecords, { key: 1, user: 1 })

const textOf = (needs: Need): string =>
  typeof needs === 'string'
    ? needs
    : [
        ...permissionsIn(needs).map(([key, value]) => `${key}/${value}`),
        ...(needs.orRole === undefined ? [] : [`role ${needs.orRole}`]),
      ].join(' or ')
const permissionsIn = ({ permission, or }: PermissionNeed): Permission[] =>
  or === undefined ? [permission] : [permission, or.permission]

t.test('every endpoint needs what the contract says', (t) => {
  for (const { method, path, needs } of endpoints) {
    const due = contract[`${method.toUpperCase()} ${path}`]?.needs
    t.equal(textOf(needs), typeof due === 'string' ? due.replace(' ', '_') : due?.join(' or '), path)
  }
  t.end()
})

t.test('every permission that an endpoint needs is one that a user can have', (t) => {
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
  for (const [path, scope] of scopes) t.equal(endpointScope({ path }), scope, path)
  t.equal(endpointScope({ path: '/users', scope: 'own_organization_or_all' }), 'own_organization_or_all')
  t.end()
})

const caller = (role: Role, permissions = {}): Caller => ({
  keyId: 1,
  organizationId: 1,
  role,
  permissions: role === 'standard' || role === 'uploads' ? permissions : permissionValues,
  ...{ uploadsFolder: null, keyName: 'A key', userId: null, userName: null },
})

t.test('each role has the permissions of the contract', (t) => {
  const importing: Need = { permission: ['subscriber', 'import'] }
  const uploading: Need = { ...importing, orRole: 'uploads' }
  const everything: Need[] = ['every_key', 'any_key', importing, uploading, 'admin', 'system_admin']
  const pausing: Need = {
    permission: ['autoresponder', 'update'],
    or: { permission: ['autoresponder', 'update_state'], forBodies: 'pausing' },
  }
  const mayPause = (...values: string[]) => meetsNeed(caller('standard', { autoresponder: values }), pausing)
  t.same([mayPause('update'), mayPause('update_state'), mayPause('create', 'delete')], [true, true, false])
  t.match(describeNeed(pausing), /autoresponder\/update .*autoresponder\/update_state is enough for pausing/)
  const allowedNeeds = (who: Caller) => everything.filter((need) => meetsNeed(who, need))
  t.same(allowedNeeds(caller('standard')), ['every_key', 'any_key'])
  const ofImporter = ['every_key', 'any_key', importing, uploading]
  t.same(allowedNeeds(caller('standard', { subscriber: ['import'] })), ofImporter)
  t.same(allowedNeeds(caller('uploads')), ['every_key', uploading])
  t.same(allowedNeeds(caller('uploads', permissionValues)), ['every_key', uploading])
  t.same(allowedNeeds(caller('standard', { subscriber: ['read'] })), ['every_key', 'any_key'])
  t.same(allowedNeeds(caller('organization_admin')), [...ofImporter, 'admin'])
  t.same(allowedNeeds(caller('system_admin')), everything)

  const reader = caller('standard', { subscriber: ['read'] })
  t.equal(outranks({ role: 'standard', permissions: { subscriber: ['read'] } }, reader), false)
  t.equal(outranks({ role: 'standard', permissions: { subscriber: ['read', 'export'] } }, reader), true)
  t.equal(outranks({ role: 'organization_admin', permissions: {} }, reader), true)
  t.equal(outranks(reader, caller('organization_admin')), false)
  t.equal(outranks(caller('system_admin'), caller('organization_admin')), true)
  t.end()
})

const updating: Need = { permission: ['subscriber', 'update'] }
const readingOrImporting: Need = {
  permission: ['subscriber', 'read'],
  or: { permission: ['subscriber', 'import'] },
}
const updatingOrPausing: Need = {
  permission: ['autoresponder', 'update'],
  or: { permission: ['autoresponder', 'update_state'], forBodies: 'pausing' },
}

t.test('a refusal says what is needed, with a 403', (t) => {
  const needs: [need: Need, text: string, description: string][] = [
    ['system_admin', 'system_admin', 'the role system_admin'],
    [
      { ...updating, orRole: 'uploads' },
      'subscriber/update or role uploads',
      'the permission subscriber/update or the role uploads',
    ],
    ['admin', 'admin', 'the role organization_admin or system_admin'],
    [updating, 'subscriber/update', 'the permission subscriber/update'],
    [
      readingOrImporting,
      'subscriber/read or subscriber/import',
      'the permission subscriber/read or subscriber/import',
    ],
    [
      updatingOrPausing,
      'autoresponder/update or autoresponder/update_state',
      'the permission autoresponder/update (autoresponder/update_state is enough for pausing)',
    ],
  ]
  for (const [need, text, description] of needs) {
    t.equal(needText(need), text)
    t.throws(
      () => {
        refuseUnless(caller('standard', { subscriber: ['export'] }), need)
      },
      { code: 'not_authorized', status: 403, message: `this needs ${description}` },
    )
    refuseUnless(caller('system_admin'), need)
  }
  t.equal(describeNeed('every_key'), "any of the organization's keys")
  t.equal(describeNeed('any_key'), "any of the organization's keys but those of the role uploads")
  t.equal(
    describeAuthorization({ path: '/users/:id', needs: updating }),
    "Needs the permission subscriber/update. Records of other organizations than the caller's are not_found, save for system admins.",
  )
  const scopes: [path: string, scope: Scope | undefined, description: string][] = [
    ['/users', undefined, "It works on the caller's own organization."],
    [
      '/users',
      'own_organization_or_given',
      "It works on the caller's own organization; a system admin may give another one as organization_id.",
    ],
    [
      '/users',
      'own_organization_or_all',
      "It covers the caller's own organization, for a system admin all of them.",
    ],
    [
      '/organizations/:id/users',
      undefined,
      "The organization in the path is the caller's own; a system admin may name any. Another one is not_found.",
    ],
    ['/organizations/all', undefined, 'It covers all organizations.'],
  ]
  for (const [path, scope, description] of scopes)
    t.equal(
      describeAuthorization({ path, needs: 'admin', ...(scope === undefined ? {} : { scope }) }),
      `Needs the role organization_admin or system_admin. ${description}`,
    )
  t.end()
})

t.test('what covers all organizations is for system admins, whatever else it needs', (t) => {
  const endpoint = (path: string, needs: Need): Endpoint => ({ path, needs }) as Endpoint
  const admin = caller('organization_admin')
  const refused = { code: 'not_authorized', message: 'this needs the role system_admin' }
  for (const path of [
    '/organizations/all',
    '/organization/all/subscribers',
    '/jobs/unfinished_on_all_organizations',
  ]) {
    t.throws(() => {
      refuseCaller(admin, endpoint(path, 'any_key'))
    }, refused)
    refuseCaller(caller('system_admin'), endpoint(path, 'any_key'))
  }
  t.throws(() => {
    refuseCaller(admin, endpoint('/organizations', 'system_admin'))
  }, refused)
  for (const path of ['/jobs/all', '/organizations/:id', '/organizations/allied'])
    refuseCaller(admin, endpoint(path, 'admin'))
  t.end()
})

t.test('the organization of a call is the one that its path begins with, else the own', async (t) => {
  // None of these reads the database.
  const organization = (path: string, params: Record<string, string>, who = caller('standard')) =>
    findCallOrganization({} as ControlPlane, who, { path } as Endpoint, params)
  t.equal(await organization('/users', { organization_id: '2' }), 1)
  t.equal(await organization('/organizations/:organization_id/users', { organization_id: '1' }), 1)
  t.equal(await organization('/organization/:id', { id: '1' }), 1)
  t.equal(await organization('/lists/organizations/:id', { id: '2' }), 1)
  for (const role of ['standard', 'organization_admin'] as const)
    await t.rejects(organization('/organizations/:id/users', { id: '2' }, caller(role)), {
      code: 'not_found',
    })
})

t.test('a caller can not create a key or a user with more permissions than its own', (t) => {
  const reader = caller('standard', { subscriber: ['read', 'export'] })
  const admin = caller('organization_admin')
  const [key, user] = [moreThanCaller('an API key'), moreThanCaller('a user')]
  const refused = (what: string) => ({
    code: 'not_authorized',
    status: 403,
    message: `you can't create, change or delete ${what} with more permissions than your own`,
  })
  t.throws(() => {
    requireNotAbove({ role: 'standard', permissions: { subscriber: ['import'] } }, reader, key)
  }, refused('an API key'))
  t.throws(() => {
    requireNotAbove({ role: 'standard', permissions: { custom_field: ['read'] } }, reader, user)
  }, refused('a user'))
  requireNotAbove({ role: 'standard', permissions: { subscriber: ['export'] } }, reader, user)
  requireNotAbove({ role: 'standard', permissions: {} }, reader, user)
  // Among admins of one rank permissions don't count, as each has all of them.
  requireNotAbove({ role: 'organization_admin', permissions: { unknown: ['x'] } }, admin, user)

  t.throws(() => {
    requireRequestedRoleNotAbove({ role: 'system_admin' }, admin, key)
  }, refused('an API key'))
  t.throws(() => {
    requireRequestedRoleNotAbove({ role: 'organization_admin' }, reader, user)
  }, refused('a user'))
  for (const document of [undefined, null, 'text', {}, { role: 'unknown' }, { role: 'organization_admin' }])
    requireRequestedRoleNotAbove(document, admin, user)
  requireRequestedRoleNotAbove({ role: 'standard' }, reader, user)
  t.end()
})
