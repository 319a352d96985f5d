import type { Rows } from './row.ts'

export const subscriberCountRows: Rows = {
  getSubscriberCounts: {
    good: async ({ list }) => {
      await list()
      return {}
    },
  },
  getSubscriberCountsOfOrganization: {
    good: ({ organizationId }) => ({ params: { organization_id: organizationId } }),
  },
  getSubscriberCountsOfOrganizations: {
    good: ({ organizationId }) => ({ params: { organization_id: organizationId } }),
  },
}
