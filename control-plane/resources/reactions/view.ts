import type { ReactionDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ReactionView, ShownState } from './schemas.ts'

/** `zone`: the IANA name of the organization's time zone. */
export function toView(reaction: ReactionDocument, state: ShownState, zone: string): ReactionView {
  const { id, autoresponder_id, subscriber_id, import_id, due_at, created_at } = reaction
  return {
    id,
    autoresponder_id,
    subscriber_id,
    import_id,
    state,
    due_at: formatInstant(due_at, zone),
    created_at: formatInstant(created_at, zone),
  }
}
