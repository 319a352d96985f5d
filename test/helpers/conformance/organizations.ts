import type { Rows } from './row.ts'

export const organizationRows: Rows = {
  listOrganizations: { good: () => ({ query: '?page=0&per_page=10' }) },
  getOrganization: { good: ({ organizationId }) => ({ params: { id: organizationId } }) },
  createOrganization: {
    good: ({ unique }) => ({
      body: {
        organization: { name: unique('Organization'), time_zone_name: 'Asia/Kolkata', subscriber_limit: 5 },
      },
    }),
  },
  updateOrganization: {
    good: ({ organizationId }) => ({
      params: { id: organizationId },
      body: { organization: { subscriber_limit: null } },
    }),
  },
}
