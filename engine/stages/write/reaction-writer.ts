import { importReactionId } from '../../../shared/contract/schemas/autoresponder.ts'
import type { ImportPlan } from '../../../shared/contract/schemas/import.ts'
import type { SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import { dueTime } from '../../../shared/values/due-time.ts'
import type { BsonWriter } from './bson-writer.ts'

/** Writes the reactions that a row causes: shared/contract/schemas/autoresponder.ts, element by element. */
export interface ReactionWriter {
  /** When reactions to what happens then are due, by autoresponder: worked out once a batch. */
  dueTimes(now: Date): DueTimes
  write(writer: BsonWriter, row: RowWithReactions): void
  /** `_id`s of the reactions that updating a subscriber may cause. */
  idsOfUpdate(subscriberId: number): string[]
  /** Whether an updated subscriber may get any. */
  queuesForUpdates: boolean
}

export type DueTimes = ReadonlyMap<number, Date>

export interface RowWithReactions {
  result: 'added' | 'updated'
  subscriberId: number
  /** Of the subscriber after the row. */
  status: SubscriberStatus
  /** Of the subscriber after the row: see its document. */
  reactivations: number
  /** The first of the ids that are set aside for the record. */
  firstId: number
  /** `_id`s of reactions that are there already: the import met the subscriber before, under another identity. */
  existing: ReadonlySet<string>
  now: Date
  dueTimes: DueTimes
  /** Takes the autoresponders of which reactions are queued. */
  triggered: Set<number>
}

/** For one import: its plan says which autoresponders a row reaches, and when. */
export function reactionWriter(
  ids: { importId: number; organizationId: number; mailingListId: number },
  { reactions: { on_subscription: onSubscription, by_api: byApi, delays }, time_zone_name: zone }: ImportPlan,
): ReactionWriter {
  return {
    dueTimes: (now) =>
      new Map(delays.map((delay) => [delay.autoresponder_id, dueTime(delay, now, zone)] as const)),
    queuesForUpdates: onSubscription.updated.length + byApi.updated.length > 0,
    idsOfUpdate: (subscriberId) =>
      [...onSubscription.updated, ...byApi.updated].map((autoresponderId) =>
        importReactionId(subscriberId, autoresponderId, ids.importId),
      ),
    write(writer, row) {
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
        writer.date('due_at', row.dueTimes.get(autoresponderId)!)
        if (row.reactivations > 0) writer.number('reactivations', row.reactivations)
        writer.date('created_at', row.now)
        writer.end(document)
        writer.documents += 1
        row.triggered.add(autoresponderId)
        id += 1
      }
    },
  }
}
