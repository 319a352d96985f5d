import { z } from 'zod'
import { subscriberStatuses, type SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import { endpoint, type Endpoint } from '../../api/endpoint.ts'
import { subscriberCounts } from './service.ts'

const meanings: Record<SubscriberStatus, string> = {
  active: 'subscribers who get mail',
  bounced: 'subscribers whose address refuses mail for good',
  unsubscribed: 'subscribers who left',
  scomp: 'subscribers who complained of spam',
  deactivated: 'subscribers who were absent from an import that deactivates the absent',
}

const counts = z
  .object(
    Object.fromEntries(
      subscriberStatuses.map((status) => [status, z.int().min(0).describe(meanings[status])]),
    ) as Record<SubscriberStatus, z.ZodInt>,
  )
  .meta({ id: 'StatusCounts', description: 'Subscribers by status; all five are always there' })

const named = (what: string) =>
  z.object({
    id: z.int().min(1).describe(`id of the ${what}`),
    name: z.string().describe(`name of the ${what}`),
  })

const view = z
  .object({
    organization: named('organization').describe('whose subscribers are counted'),
    counts: counts.describe('over all its mailing lists'),
    mailing_lists: z
      .array(
        z.object({
          mailing_list: named('mailing list').describe('whose subscribers are counted'),
          counts: counts.describe('on this mailing list'),
        }),
      )
      .describe('every mailing list, by id, also those without a subscriber'),
  })
  .meta({ id: 'SubscriberCounts' })

const exampleCounts = { active: 980, bounced: 12, unsubscribed: 7, scomp: 1, deactivated: 0 }
const example: z.infer<typeof view> = {
  organization: { id: 2, name: 'Example Ltd' },
  counts: exampleCounts,
  mailing_lists: [{ mailing_list: { id: 12, name: 'Newsletter' }, counts: exampleCounts }],
}

function countsEndpoint(prefix: string, suffix: string, summary: string): Endpoint {
  return endpoint({
    method: 'get',
    path: `${prefix}/subscriber_counts`,
    operationId: `getSubscriberCounts${suffix}`,
    summary,
    tag: 'Subscriber counts',
    needs: 'any_key',
    reply: { data: view, example },
    async handle({ deps, organizationId }) {
      return { data: await subscriberCounts(deps, organizationId) }
    },
  })
}

export const subscriberCountEndpoints = [
  countsEndpoint('', '', "Subscribers by status, of the caller's organization and of each of its lists"),
  countsEndpoint('/organization/:organization_id', 'OfOrganization', 'The same for one organization'),
  countsEndpoint('/organizations/:organization_id', 'OfOrganizations', 'The same under the plural path'),
]
