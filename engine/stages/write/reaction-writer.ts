import { importReactionId } from '../../../shared/contract/schemas/autoresponder.ts'
import type { ImportPlan } from '../../../shared/contract/schemas/import.ts'
import type { SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import { dueTime } from '../../../shared/values/due-time.ts'
import type { BsonWriter } from './bson/bson-writer.ts'

export type DueTimes = ReadonlyMap<number, Date>

export interface RowWithReactions {
  result: 'added' | 'updated'
  subscriberId: number
  /** The subscriber's status after the row. */
  status: SubscriberStatus
  /** The subscriber's count after the row. */
  reactivations: number
  /** The first of the reaction ids that the split reserved for the record. */
  firstId: number
  /** `_id`s of reactions that this import queued for the subscriber before, under another identity. */
  existing: ReadonlySet<string>
  now: Date
  dueTimes: DueTimes
  /** Receives the ids of the autoresponders whose reactions are queued. */
  triggered: Set<number>
}

/**
 * Writes the reactions that a row causes, as documents of shared/contract/schemas/autoresponder.ts. Made once per import:
 * the plan says which autoresponders a row triggers, and when.
 */
export function reactionWriter(
  ids: { importId: number; organizationId: number; mailingListId: number },
  { reactions: { on_subscription: onSubscription, by_api: byApi, delays }, time_zone_name: zone }: ImportPlan,
) {
  return {
    /** Due times of reactions to an event at `now`, by autoresponder; computed once a batch. */
    dueTimes: (now: Date): DueTimes =>
      new Map(delays.map((delay) => [delay.autoresponder_id, dueTime(delay, now, zone)] as const)),
    /** Updates may queue reactions. */
    queuesForUpdates: onSubscription.updated.length + byApi.updated.length > 0,
    /** `_id`s of the reactions that an update of the subscriber may queue. */
    idsOfUpdate: (subscriberId: number) =>
      [...onSubscription.updated, ...byApi.updated].map((autoresponderId) =>
        importReactionId(subscriberId, autoresponderId, ids.importId),
      ),
    write(writer: BsonWriter, row: RowWithReactions): void {
      let id = row.firstId
      const autoresponders =
        row.status === 'active' ? [...onSubscription[row.result], ...byApi[row.result]] : byApi[row.result]
      for (const autoresponderId of autoresponders) {
        const key = importReactionId(row.subscriberId, autoresponderId, ids.importId)
        if (row.existing.has(key)) continue
        const document = writer.begin()
        writer.string('_id', key)
        writer.number('id', id)
        writer.number('organization_id', ids.organizationId)
        writer.number('mailing_list_id', ids.mailingListId)
        writer.number('autoresponder_id', autoresponderId)
        writer.number('subscriber_id', row.subscriberId)
        writer.number('import_id', ids.importId)
        writer.string('state', 'queued')
        writer.date('due_at', row.dueTimes.get(autoresponderId)!.getTime())
        writer.date('available_at', row.dueTimes.get(autoresponderId)!.getTime())
        if (row.reactivations > 0) writer.number('reactivations', row.reactivations)
        writer.date('created_at', row.now.getTime())
        writer.end(document)
        row.triggered.add(autoresponderId)
        id += 1
      }
    },
  }
}
