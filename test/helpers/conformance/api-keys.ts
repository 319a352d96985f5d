import type { Row, Rows } from './row.ts'
import type { World } from './world.ts'

const newKey = (world: World) => world.post('/api_keys', { api_key: { name: 'A key' } })

/** The same four endpoints, with and without an organization in the path. */
function rows(
  suffix: string,
  organizationOf: (world: World) => Record<string, number>,
  failuresOfCreation: NonNullable<Row['failures']>,
): Rows {
  /** The key that the service was set up with: the only one of a system admin. */
  const systemKey = () => ({
    params: { ...(suffix === '' ? {} : { organization_id: 1 }), id: 1 },
  })
  const onNewKey = (body?: unknown): Row['good'] => {
    return async (world) => ({
      params: { ...organizationOf(world), id: (await newKey(world)).id },
      ...(body === undefined ? {} : { body }),
    })
  }
  return {
    [`listApiKeys${suffix}`]: { good: (world) => ({ params: organizationOf(world), query: '?per_page=3' }) },
    [`createApiKey${suffix}`]: {
      good: (world) => ({
        params: organizationOf(world),
        body: { api_key: { name: 'Nightly', role: 'standard', active: false, user_id: null } },
      }),
      failures: {
        'a key that may do more than the caller': (world) => ({
          sent: { params: organizationOf(world), body: { api_key: { name: 'x', role: 'system_admin' } } },
          code: 'not_authorized',
          status: 403,
        }),
        'a user who is not there': (world) => ({
          sent: { params: organizationOf(world), body: { api_key: { name: 'x', user_id: 999_999 } } },
          code: 'validation_failed',
          message: /^user_id names no user/,
        }),
        ...failuresOfCreation,
      },
    },
    [`updateApiKey${suffix}`]: {
      good: onNewKey({ api_key: { name: 'Renamed', active: false } }),
      failures: {
        'a key that may do more than the caller': async (world) => ({
          sent: { ...systemKey(), key: await world.adminBesideSystem(), body: { api_key: { name: 'Mine' } } },
          code: 'not_authorized',
          status: 403,
        }),
        'a user who is not there': async (world) => ({
          sent: {
            params: { ...organizationOf(world), id: (await newKey(world)).id },
            body: { api_key: { user_id: 999_999 } },
          },
          code: 'validation_failed',
          message: /^user_id names no user/,
        }),
        'a system admin outside of organization 1': async (world) => ({
          sent: {
            key: world.system,
            params: { ...organizationOf(world), id: (await newKey(world)).id },
            body: { api_key: { role: 'system_admin' } },
          },
          code: 'validation_failed',
          message: /^role can be system_admin only/,
        }),
        'switching off the last key of a system admin': (world) => ({
          sent: { ...systemKey(), key: world.system, body: { api_key: { active: false } } },
          code: 'validation_failed',
          message: /no usable system-admin key/,
        }),
      },
    },
    [`deleteApiKey${suffix}`]: {
      good: onNewKey(),
      failures: {
        'a key that may do more than the caller': async (world) => ({
          sent: { ...systemKey(), key: await world.adminBesideSystem() },
          code: 'not_authorized',
          status: 403,
        }),
        'the last key of a system admin': (world) => ({
          sent: { ...systemKey(), key: world.system },
          code: 'validation_failed',
          message: /no usable system-admin key/,
        }),
      },
    },
  }
}

export const apiKeyRows: Rows = {
  ...rows('', () => ({}), {}),
  ...rows('OfOrganization', ({ organizationId }) => ({ organization_id: organizationId }), {
    'a system admin outside of organization 1': (world) => ({
      sent: {
        key: world.system,
        params: { organization_id: world.organizationId },
        body: { api_key: { name: 'x', role: 'system_admin' } },
      },
      code: 'validation_failed',
      message: /^role can be system_admin only/,
    }),
  }),
}
