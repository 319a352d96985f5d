import { tooManyMessages } from '../../../control-plane/resources/outbox/routes.ts'
import type { Rows } from './row.ts'

export const outboxRows: Rows = {
  listReactions: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      query: '?state=queued,held&per_page=5',
    }),
    failures: {
      'a state that there is not': async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id }, query: '?state=queued,asleep' },
        code: 'invalid_request',
        message: /^state/,
      }),
      'a filter that is no id': async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id }, query: '?subscriber_id=ann' },
        code: 'invalid_request',
        message: /^subscriber_id/,
      }),
    },
  },
  takeOutboxMessages: { good: () => ({ body: { outbox: { limit: 5, lease_seconds: 10 } } }) },
  acknowledgeOutboxMessages: {
    good: () => ({ body: { outbox: { messages: [{ id: 999_999_999, lease_token: 'x' }] } } }),
    refusals: [
      () => ({
        sent: {
          body: {
            outbox: { messages: Array.from({ length: 1_001 }, (_, i) => ({ id: i + 1, lease_token: 'x' })) },
          },
        },
        refused: tooManyMessages(1_001),
      }),
    ],
  },
}
