import {
  isFile,
  moreThanYours,
  noSuchUser,
  noUserWithUploads,
  otherCase,
  uploadsOnly,
} from '../../../control-plane/resources/api-keys/refusals.ts'
import { noSystemKeyLeft, systemAdminElsewhere } from '../../../control-plane/resources/credential-changes.ts'
import type { RequestError } from '../../../control-plane/api/request-error.ts'
import type { Row, Rows } from './row.ts'
import { partnerFolder, type World } from './world.ts'

/** What a folder or a role for uploads is refused for, in a creation or an update. */
const ofUploads = (
  paramsIn: (world: World) => Promise<Record<string, number>>,
): NonNullable<Row['refusals']> => {
  const other = partnerFolder.toUpperCase()
  const refusedFor = (key: Record<string, unknown>, refused: RequestError) => async (world: World) => ({
    sent: { params: await paramsIn(world), body: { api_key: { name: 'x', ...key } } },
    refused,
  })
  const role = 'uploads'
  return [
    refusedFor({ role: 'standard', uploads_folder: 'acme' }, uploadsOnly()),
    async (world) => {
      const user_id = (await world.post('/users', { user: newUser(world) })).id
      return refusedFor({ role, user_id }, noUserWithUploads())(world)
    },
    refusedFor({ role, uploads_folder: other }, otherCase(other, partnerFolder)),
    async (world) => {
      const path = '/uploads/plain'
      await world.service.call('PUT', path, 'email', {
        key: world.admin,
        headers: { 'content-type': 'text/csv' },
      })
      return refusedFor({ role, uploads_folder: 'plain' }, isFile('plain'))(world)
    },
  ]
}

const newUser = (world: World) => ({
  ...{
    full_name: 'A user',
    role: 'standard',
    email: `${world.unique('user').replace(' ', '-')}@example.com`,
    active: true,
  },
  ...{ password1: 'correct horse battery', password2: 'correct horse battery' },
})

const newKey = (world: World) => world.post('/api_keys', { api_key: { name: 'A key' } })

/** The same endpoints, with and without an organization in the path. */
function rows(
  suffix: string,
  organizationOf: (world: World) => Record<string, number>,
  refusalsOfCreation: NonNullable<Row['refusals']>,
): Rows {
  /** The key that the service was set up with: the only one of a system admin. */
  const systemKey = { params: { ...(suffix === '' ? {} : { organization_id: 1 }), id: 1 } }
  const paramsOfNewKey = async (world: World) => ({
    ...organizationOf(world),
    id: (await newKey(world)).id,
  })
  const onNewKey = (body?: unknown): Row['good'] => {
    return async (world) => ({ params: await paramsOfNewKey(world), ...(body === undefined ? {} : { body }) })
  }
  return {
    [`listApiKeys${suffix}`]: { good: (world) => ({ params: organizationOf(world), query: '?per_page=3' }) },
    [`createApiKey${suffix}`]: {
      good: (world) => ({
        params: organizationOf(world),
        body: { api_key: { name: 'Nightly', role: 'standard', active: false, user_id: null } },
      }),
      refusals: [
        // The role is refused before all else about the document.
        (world) => ({
          sent: { params: organizationOf(world), body: { api_key: { name: 5, role: 'system_admin' } } },
          refused: moreThanYours(),
        }),
        (world) => ({
          sent: { params: organizationOf(world), body: { api_key: { name: 'x', user_id: 999_999 } } },
          refused: noSuchUser(world.organizationId),
        }),
        ...ofUploads((world) => Promise.resolve(organizationOf(world))),
        ...refusalsOfCreation,
      ],
    },
    [`getApiKey${suffix}`]: { good: onNewKey() },
    [`updateApiKey${suffix}`]: {
      good: onNewKey({ api_key: { name: 'Renamed', active: false } }),
      refusals: [
        async (world) => ({
          sent: { ...systemKey, key: await world.adminBesideSystem(), body: { api_key: { name: 5 } } },
          refused: moreThanYours(),
        }),
        async (world) => ({
          sent: { params: await paramsOfNewKey(world), body: { api_key: { user_id: 999_999 } } },
          refused: noSuchUser(world.organizationId),
        }),
        async (world) => ({
          sent: {
            key: world.system,
            params: await paramsOfNewKey(world),
            body: { api_key: { role: 'system_admin' } },
          },
          refused: systemAdminElsewhere(),
        }),
        ...ofUploads(paramsOfNewKey),
        (world) => ({
          sent: { ...systemKey, key: world.system, body: { api_key: { active: false } } },
          refused: noSystemKeyLeft(),
        }),
      ],
    },
    [`deleteApiKey${suffix}`]: {
      good: onNewKey(),
      refusals: [
        async (world) => ({
          sent: { ...systemKey, key: await world.adminBesideSystem() },
          refused: moreThanYours(),
        }),
        (world) => ({ sent: { ...systemKey, key: world.system }, refused: noSystemKeyLeft() }),
      ],
    },
  }
}

export const apiKeyRows: Rows = {
  ...rows('', () => ({}), []),
  ...rows('OfOrganization', ({ organizationId }) => ({ organization_id: organizationId }), [
    (world) => ({
      sent: {
        key: world.system,
        params: { organization_id: world.organizationId },
        body: { api_key: { name: 'x', role: 'system_admin' } },
      },
      refused: systemAdminElsewhere(),
    }),
  ]),
}
