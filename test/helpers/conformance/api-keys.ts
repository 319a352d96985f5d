import type { Row, Rows } from './row.ts'
import type { World } from './world.ts'

const newKey = (world: World) => world.post('/api_keys', { api_key: { name: 'A key' } })

/** The same four endpoints, with and without an organization in the path. */
function rows(
  suffix: string,
  organizationOf: (world: World) => Record<string, number>,
  failuresOfCreation: NonNullable<Row['failures']>,
): Rows {
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
        'a key that may do more than his own': (world) => ({
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
    [`updateApiKey${suffix}`]: { good: onNewKey({ api_key: { name: 'Renamed', active: false } }) },
    [`deleteApiKey${suffix}`]: { good: onNewKey() },
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
