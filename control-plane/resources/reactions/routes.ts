import { z } from 'zod'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { endpoint } from '../../api/endpoint.ts'
import { wholeNumber } from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { findSubscriberList } from '../subscribers/list-context.ts'
import { listReactions, shownStates, type ShownReaction, type ShownState } from './find.ts'

const view = z
  .object({
    id: z.int(),
    autoresponder_id: z.int(),
    subscriber_id: z.int(),
    import_id: z.int().nullable().describe('the import that caused it; null for everything else'),
    state: z
      .enum(shownStates)
      .describe(
        'queued: waits for its time; held: its autoresponder is paused; due: its mail is in the outbox; sent: acknowledged; dropped: it is not sent',
      ),
    due_at: z.string().describe("when its mail is to be sent, in the organization's time zone"),
    created_at: z.string(),
  })
  .meta({ id: 'Reaction' })

const states = z
  .string()
  .transform((text) => text.split(',').map((part) => part.trim()))
  .refine((parts) => parts.every((part) => (shownStates as readonly string[]).includes(part)), {
    error: `must be made of ${shownStates.join(', ')}`,
  })
  .transform((parts): readonly ShownState[] => shownStates.filter((state) => parts.includes(state)))
  .optional()
  .meta({
    description: `states, comma-separated: ${shownStates.join(', ')}`,
    override: { type: 'string' },
  })

const query = tokenPagingQuery({ perPage: 100, most: 500 }).safeExtend({
  subscriber_id: filterId('the subscriber that they are for'),
  autoresponder_id: filterId('the autoresponder that answers'),
  state: states,
})

function filterId(description: string) {
  return wholeNumber(1)
    .optional()
    .meta({ description, override: { type: 'integer', minimum: 1 } })
}

export const reactionEndpoints = [
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/reactions',
    operationId: 'listReactions',
    summary: "Reactions of the list's autoresponders, by id; a deleted subscriber's are gone",
    tag: 'Reactions',
    needs: 'any_key',
    query,
    reply: {
      data: z.array(view),
      paging: 'tokens',
      example: [
        {
          id: 77001,
          autoresponder_id: 5,
          subscriber_id: 9001,
          import_id: null,
          state: 'queued' as const,
          due_at: '2026-11-22T09:00:00+01:00',
          created_at: '2026-11-21T09:00:00+01:00',
        },
      ],
    },
    async handle({ deps, caller, params, query }) {
      const { list, zone } = await findSubscriberList(deps, caller, params['mailing_list_id'])
      const { subscriber_id, autoresponder_id, state = shownStates, ...page } = query()
      const { reactions, paging } = await listReactions(
        deps,
        {
          listId: list._id,
          subscriberId: subscriber_id,
          autoresponderId: autoresponder_id,
          states: state,
        },
        page,
      )
      return { data: reactions.map((reaction) => toView(reaction, zone)), paging }
    },
  }),
]

function toView(reaction: ShownReaction, zone: string): z.infer<typeof view> {
  const { id, autoresponder_id, subscriber_id, import_id, shownState: state } = reaction
  return {
    id,
    autoresponder_id,
    subscriber_id,
    import_id,
    state,
    due_at: formatInstant(reaction.due_at, zone),
    created_at: formatInstant(reaction.created_at, zone),
  }
}
