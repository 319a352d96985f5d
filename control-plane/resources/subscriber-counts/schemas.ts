import { z } from 'zod'
import type { SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'

const count = (of: string) => z.int().min(0).describe(of)

export const statusCountsView = z
  .object({
    active: count('subscribers that get mail'),
    bounced: count('subscribers whose address refuses mail for good'),
    unsubscribed: count('subscribers that left'),
    scomp: count('subscribers that complained of spam'),
    deactivated: count('subscribers that were absent from an import that deactivates the absent'),
  } satisfies Record<SubscriberStatus, z.ZodInt>)
  .meta({ id: 'StatusCounts', description: 'Subscribers by status; all five are always there' })

const named = (what: string) =>
  z.object({
    id: z.int().min(1).describe(`id of the ${what}`),
    name: z.string().describe(`name of the ${what}`),
  })

export const subscriberCountsView = z
  .object({
    organization: named('organization').describe('whose subscribers are counted'),
    counts: statusCountsView.describe('over all its mailing lists'),
    mailing_lists: z
      .array(
        z.object({
          mailing_list: named('mailing list').describe('whose subscribers are counted'),
          counts: statusCountsView.describe('on this mailing list'),
        }),
      )
      .describe('every mailing list, by id, also those without a subscriber'),
  })
  .meta({ id: 'SubscriberCounts' })
export type SubscriberCountsView = z.infer<typeof subscriberCountsView>

const exampleCounts = { active: 980, bounced: 12, unsubscribed: 7, scomp: 1, deactivated: 0 }
export const exampleSubscriberCounts: SubscriberCountsView = {
  organization: { id: 2, name: 'Example Ltd' },
  counts: exampleCounts,
  mailing_lists: [{ mailing_list: { id: 12, name: 'Newsletter' }, counts: exampleCounts }],
}
