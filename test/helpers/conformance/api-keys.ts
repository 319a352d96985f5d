import { moreThanYours, noSuchUser } from '../../../control-plane/resources/api-keys/refusals.ts'
import { noSystemKeyLeft, systemAdminElsewhere } from '../../../control-plane/resources/credential-changes.ts'
import type { Row, Rows } from './row.ts'
import type { World } from './world.ts'

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
