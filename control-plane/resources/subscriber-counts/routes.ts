import { endpoint, type Endpoint } from '../../api/endpoint.ts'
import { exampleSubscriberCounts, subscriberCountsView } from './schemas.ts'

function countsEndpoint(prefix: string, suffix: string, summary: string): Endpoint {
  return endpoint({
    method: 'get',
    path: `${prefix}/subscriber_counts`,
    operationId: `getSubscriberCounts${suffix}`,
    summary,
    tag: 'Subscriber counts',
    needs: 'any_key',
    reply: { data: subscriberCountsView, example: exampleSubscriberCounts },
    handle: async ({ deps, organizationId }) => ({ data: await deps.subscriberCounts(organizationId) }),
  })
}

export const subscriberCountEndpoints = [
  countsEndpoint('', '', "Subscribers by status, of the caller's organization and of each of its lists"),
  countsEndpoint('/organization/:organization_id', 'OfOrganization', 'The same for one organization'),
  countsEndpoint('/organizations/:organization_id', 'OfOrganizations', 'The same under the plural path'),
]
