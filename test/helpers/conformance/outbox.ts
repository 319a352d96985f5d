import { RequestError } from '../../../control-plane/api/request-error.ts'
import { tooManyMessages } from '../../../control-plane/resources/outbox/routes.ts'
import { shownStates } from '../../../control-plane/resources/reactions/schemas.ts'
import { onRemoteList, type Rows } from './row.ts'

export const outboxRows: Rows = {
  listReactions: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      query: '?state=queued,held&per_page=5',
    }),
    refusals: [
      onRemoteList(),
      async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id }, query: '?state=queued,asleep' },
        refused: new RequestError(
          'invalid_request',
          `state must be one or more of ${shownStates.join(', ')}, separated by commas`,
        ),
      }),
    ],
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
