import { z } from 'zod'
import { endpoint } from '../../api/endpoint.ts'
import { refusal } from '../../api/refusal.ts'
import { acknowledgedView, acknowledging, exampleMessage, messageView, taking } from './schemas.ts'
import { acknowledge, takeMessages } from './service.ts'

const tag = 'Outbox'
const maxAcknowledged = 1_000

export const tooManyMessages = refusal(
  'requested_too_many',
  (count: number) =>
    `${count} messages were acknowledged, and ${maxAcknowledged} are possible at once: send them in several calls`,
  maxAcknowledged + 1,
)

export const outboxEndpoints = [
  endpoint({
    method: 'post',
    path: '/outbox/take',
    operationId: 'takeOutboxMessages',
    summary:
      'Leases due messages to a mail sender, in order of `due_at`; no other call gets them until the lease ends. An empty array when none is due. Each organization gets its share; one with 50 waiting calls gets 429',
    tag,
    needs: 'admin',
    scope: 'own_organization_or_all',
    body: {
      wrapper: 'outbox',
      schema: taking,
      optional: true,
      examples: { 'at most 100 messages for 5 minutes': { outbox: { limit: 100, lease_seconds: 300 } } },
    },
    slot: null,
    reply: { data: z.array(messageView), example: [exampleMessage] },
    handle: async (call) => ({ data: await takeMessages(call, call.body) }),
  }),
  endpoint({
    method: 'post',
    path: '/outbox/acknowledge',
    operationId: 'acknowledgeOutboxMessages',
    summary: 'Confirms that messages were mailed, so that they are not handed out again',
    tag,
    needs: 'admin',
    scope: 'own_organization_or_all',
    body: {
      wrapper: 'outbox',
      schema: acknowledging,
      examples: {
        'one message was sent': {
          outbox: { messages: [{ id: 77001, lease_token: 'b7mWq0tB0m7j1y6wXo2f5Q' }] },
        },
      },
    },
    reply: { data: acknowledgedView, example: { acknowledged: 1, stale: [] } },
    refusals: [tooManyMessages],
    async handle({ deps, caller, body: { messages } }) {
      if (messages.length > maxAcknowledged) throw tooManyMessages(messages.length)
      return { data: await acknowledge(deps, caller, messages) }
    },
  }),
]
