import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ReactionView } from './schemas.ts'
import type { ShownReaction } from './service.ts'

/** `zone`: the IANA name of the organization's time zone. */
export function toView(reaction: ShownReaction, zone: string): ReactionView {
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
