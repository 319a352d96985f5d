import type { Rows } from './row.ts'

export const subscriberCountRows: Rows = {
  getSubscriberCounts: { good: () => ({}) },
  getSubscriberCountsOfOrganization: {
    good: ({ organizationId }) => ({ params: { organization_id: organizationId } }),
  },
  getSubscriberCountsOfOrganizations: {
    good: ({ organizationId }) => ({ params: { organization_id: organizationId } }),
  },
}
