import { z } from 'zod'
import { RequestError } from '../../../shared/contract/errors.ts'
import { acknowledgeMessages } from '../../../shared/store/outbox.ts'
import { endpoint } from '../../api/endpoint.ts'
import { acknowledgedView, acknowledging, exampleMessage, messageView, taking } from './schemas.ts'
import { outboxScope, takeMessages } from './take.ts'

const tag = 'Outbox'
const maxAcknowledged = 1_000

const tooMany = (amount: number): string =>
  `${amount} messages are acknowledged, and ${maxAcknowledged} are possible at once`

export const outboxEndpoints = [
  endpoint({
    method: 'post',
    path: '/outbox/take',
    operationId: 'takeOutboxMessages',
    summary:
      'Takes messages that are to be mailed, in order of `due_at`, each for one taker until its lease ends; an empty array when there is none. Organizations are served in turn; one that has 50 takes waiting gets 429',
    tag,
    needs: 'admin',
    scope: 'own_organization_or_all',
    body: {
      wrapper: 'outbox',
      schema: taking,
      optional: true,
      example: { outbox: { limit: 100, lease_seconds: 300 } },
    },
    hasOwnSlots: true,
    reply: { data: z.array(messageView), example: [exampleMessage] },
    async handle(call) {
      return { data: await takeMessages(call, call.body()) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/outbox/acknowledge',
    operationId: 'acknowledgeOutboxMessages',
    summary: 'Says that messages were mailed, so that nobody gets them again',
    tag,
    needs: 'admin',
    scope: 'own_organization_or_all',
    body: {
      wrapper: 'outbox',
      schema: acknowledging,
      example: { outbox: { messages: [{ id: 77001, lease_token: 'b7mWq0tB0m7j1y6wXo2f5Q' }] } },
    },
    reply: { data: acknowledgedView, example: { acknowledged: 1, stale: [] } },
    refusals: { requested_too_many: tooMany(1_001) },
    async handle({ deps, caller, body }) {
      const { messages } = body()
      if (messages.length > maxAcknowledged)
        throw new RequestError('requested_too_many', tooMany(messages.length))
      const given = messages.map(({ id, lease_token }) => ({ id, leaseToken: lease_token }))
      const done = await acknowledgeMessages(deps.database.collections, outboxScope(caller), given)
      const stale = new Set(messages.map(({ id }) => id).filter((id) => !done.has(id)))
      return { data: { acknowledged: done.size, stale: [...stale] } }
    },
  }),
]
