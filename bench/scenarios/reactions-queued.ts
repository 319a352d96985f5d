import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import type { Comparison } from '../scenario.ts'

/** What it costs that each new subscriber is to get a mail. */
export const reactionsQueued: Comparison = {
  name: 'reactions-queued',
  summary:
    'new rows that each queue a reaction of an on-subscription autoresponder, against rows that queue none',
  defaultRows: 1_000_000,
  async prepare(context) {
    const { dataset, file } = await writeSubscriberFile(context)
    const { added } = dataset.expectedCounts()
    return [
      rollcallImport(context, {
        name: 'with reactions',
        dataset,
        file,
        request: { autoresponders: { subscription: { trigger: true } } },
        prepare: async ({ client }, listId) => {
          await client.post(`/mailing_lists/${listId}/autoresponders`, { autoresponder: welcome })
        },
        check: async ({ database }) => {
          const queued = await database.collections.reactions.countDocuments({ state: 'queued' })
          return queued === added ? null : `${queued} reactions are queued, not ${added}`
        },
      }),
      rollcallImport(context, { name: 'without reactions', dataset, file }),
    ]
  },
}

/** Due a month later: how due ones get on is another benchmark. A day later may be midnight, in the middle of a round. */
const welcome = {
  name: 'Welcome',
  trigger: 'subscription',
  trigger_include_subscribers_from_import: true,
  delay: 'with_delay',
  delay_amount: 1,
  delay_unit: 'months',
  from_name: 'Bench',
  from_email: 'bench@example.com',
  content_subject: 'Welcome',
  content_text: 'Welcome',
  content_format: 'text',
}
