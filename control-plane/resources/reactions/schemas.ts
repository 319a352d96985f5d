import { z } from 'zod'
import { filterId, someOf } from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'

/** Reactions in requests and replies. */

/** `held`: queued or due while the autoresponder is paused; it is shown, and never stored. */
export const shownStates = ['queued', 'held', 'due', 'sent', 'dropped'] as const
export type ShownState = (typeof shownStates)[number]

export const reactionView = z
  .object({
    id: z.int(),
    autoresponder_id: z.int(),
    subscriber_id: z.int(),
    import_id: z.int().nullable().describe('the import that caused it; null for every other cause'),
    state: z
      .enum(shownStates)
      .describe(
        'queued: waits for its time; held: its autoresponder is paused; due: a mail sender can take its mail; sent: the mail was acknowledged; dropped: no mail is sent',
      ),
    due_at: z.string().describe("when its mail is due, in the organization's time zone"),
    created_at: z.string(),
  })
  .meta({ id: 'Reaction' })
export type ReactionView = z.infer<typeof reactionView>

export const exampleReaction: ReactionView = {
  id: 77001,
  autoresponder_id: 5,
  subscriber_id: 9001,
  import_id: null,
  state: 'queued',
  due_at: '2026-11-22T09:00:00+01:00',
  created_at: '2026-11-21T09:00:00+01:00',
}

export const reactionQuery = tokenPagingQuery({ perPage: 100, max: 500 }).safeExtend({
  subscriber_id: filterId('the subscriber that they answer'),
  autoresponder_id: filterId('the autoresponder that answers'),
  state: someOf('states', shownStates),
})

export type ReactionQuery = z.infer<typeof reactionQuery>
