import type { ReactionDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { sameFields } from '../stored-fields.ts'
import { reactionView, type ReactionView, type ShownState } from './schemas.ts'

/** `zone`: the IANA name of the organization's time zone. */
export const toView = (reaction: ReactionDocument, state: ShownState, zone: string): ReactionView => ({
  ...sameFields(reactionView, reaction),
  // Only confirmations have none, and they aren't listed.
  subscriber_id: reaction.subscriber_id!,
  state,
  due_at: formatInstant(reaction.due_at, zone),
  created_at: formatInstant(reaction.created_at, zone),
})
