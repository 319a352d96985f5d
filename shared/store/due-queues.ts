import type { Collection, Document, Filter } from 'mongodb'
import type { ReactionDocument } from '../contract/schemas/autoresponder.ts'
import type { CallbackDocument } from '../contract/schemas/callback.ts'
import { callbacksIndex, queuedIndex, type Collections } from '../contract/schemas/collections.ts'

/**
 * Queues of documents that wait for their due time: reactions by autoresponder, callbacks by receiver. A paused queue may
 * have a million overdue documents, so a scan by time alone would read all of them, and writing them at the pause would be
 * a million writes. One index orders each queue by time. A skip scan reads the first due time of every queue, 225 keys for
 * 225 queues with 90,000 reactions, and a merge then reads the next documents of the open queues. The cost depends on the
 * number of queues and on what is read, never on what waits.
 */
interface DueQueues<T extends Document> {
  collection: Collection<T>
  state: string
  queueKey: string
  timeKey: string
  /** Orders documents that are due at the same moment. */
  idKey: string
  index: Record<string, 1>
}

export const queuedReactions = ({ reactions }: Collections): DueQueues<ReactionDocument> => ({
  collection: reactions,
  state: 'queued',
  queueKey: 'autoresponder_id',
  timeKey: 'available_at',
  idKey: 'id',
  index: queuedIndex,
})

export const waitingCallbacks = ({ callbacks }: Collections): DueQueues<CallbackDocument> => ({
  collection: callbacks,
  state: 'waiting',
  queueKey: 'queue',
  timeKey: 'due_at',
  idKey: '_id',
  index: callbacksIndex,
})

/** A queue and the due time of its first document. */
export interface QueueBeginning<Queue = number> {
  queue: Queue
  dueAt: Date
}

/** The beginnings of all queues that have documents, or of the given queues; the earliest first. */
export async function readBeginnings<T extends Document, Queue = number>(
  { collection, state, queueKey, timeKey, index }: DueQueues<T>,
  queues?: readonly Queue[],
): Promise<QueueBeginning<Queue>[]> {
  const found = await collection
    .aggregate<{ _id: Queue; due_at: Date }>(
      [
        { $match: { state, ...(queues === undefined ? {} : { [queueKey]: { $in: queues } }) } },
        { $sort: { [queueKey]: 1, [timeKey]: 1 } },
        { $group: { _id: `$${queueKey}`, due_at: { $first: `$${timeKey}` } } },
      ],
      { hint: index },
    )
    .toArray()
  return found
    .map(({ _id, due_at }) => ({ queue: _id, dueAt: due_at }))
    .sort((a, b) => a.dueAt.getTime() - b.dueAt.getTime())
}

/** A merge of 199 queues is planned for 37 ms, and from 200 on the server sorts everything. */
const maxMerged = 50

/**
 * Up to `limit` documents of these queues that are due by `until`, in order of time. `beginnings` is in order too.
 * Only the first queues are merged, up to the due time of the next queue, so the order is the same as over all
 * queues.
 */
export async function readDue<T extends Document>(
  { collection, state, queueKey, timeKey, idKey, index }: DueQueues<T>,
  beginnings: readonly QueueBeginning[],
  { until, limit, projection }: { until: Date; limit: number; projection: Document },
): Promise<T[]> {
  const due = beginnings.filter(({ dueAt }) => dueAt <= until)
  if (due.length === 0) return []
  const next = due[maxMerged]
  const filter = {
    state,
    [queueKey]: { $in: due.slice(0, maxMerged).map(({ queue }) => queue) },
    [timeKey]: { $lte: next === undefined ? until : next.dueAt },
  } as unknown as Filter<T>
  return collection
    .find<T>(filter, { projection, hint: index, batchSize: limit + 1 })
    .sort({ [timeKey]: 1, [idKey]: 1 })
    .limit(limit)
    .toArray()
}
