import type { ReactionDocument } from '../../shared/contract/schemas/autoresponder.ts'

/** A queued reaction of autoresponder 1 to subscriber 1. It can be taken at its due time, an hour ago by default. */
export function storedReaction(changes: Partial<ReactionDocument> = {}): ReactionDocument {
  const { id = 1, subscriber_id = 1, autoresponder_id = 1 } = changes
  const { due_at = new Date(Date.now() - 3_600_000) } = changes
  return {
    _id: `${subscriber_id}:${autoresponder_id}:request ${id}`,
    ...{ id, organization_id: 1, mailing_list_id: 1, autoresponder_id, subscriber_id, import_id: null },
    ...{ state: 'queued', due_at, available_at: due_at, created_at: due_at },
    ...changes,
  }
}
