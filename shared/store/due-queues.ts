import type { Collection, Document, Filter, IndexSpecification } from 'mongodb'
import type { ReactionDocument } from '../contract/schemas/autoresponder.ts'
import type { CallbackDocument } from '../contract/schemas/callback.ts'
import { callbacksIndex, queuedIndex, readyIndex, type Collections } from '../contract/schemas/collections.ts'
import type { OutboxDocument } from '../contract/schemas/outbox.ts'

/**
 * Documents that wait for their time, each in a queue: reactions by autoresponder, messages of the outbox, callbacks. A queue
 * may be closed (its autoresponder is paused) with a million of them overdue, so what comes next isn't looked for by
 * time alone. One index has each queue in order of time: the beginnings of all queues are read by skipping from one to
 * the next, and what comes next of those that are open is merged from their beginnings. The cost goes by the number of
 * queues and by what is taken, never by what waits.
 */
export interface DueQueues<T extends Document> {
  collection: Collection<T>
  state: string
  queueKey: string
  /** Orders what is due at the same moment. */
  idKey: string
  index: IndexSpecification
}

export const queuedReactions = ({ reactions }: Collections): DueQueues<ReactionDocument> => ({
  collection: reactions,
  state: 'queued',
  queueKey: 'autoresponder_id',
  idKey: 'id',
  index: queuedIndex,
})

export const readyMessages = ({ outbox }: Collections): DueQueues<OutboxDocument> => ({
  collection: outbox,
  state: 'ready',
  queueKey: 'queue',
  idKey: '_id',
  index: readyIndex,
})

export const waitingCallbacks = ({ callbacks }: Collections): DueQueues<CallbackDocument> => ({
  collection: callbacks,
  state: 'waiting',
  queueKey: 'queue',
  idKey: '_id',
  index: callbacksIndex,
})

/** When a queue's first one is due. */
export interface QueueBeginning<Queue = number> {
  queue: Queue
  dueAt: Date
}

/** The beginnings of all queues in which something waits, or of those given, earliest first. */
export async function readBeginnings<T extends Document, Queue = number>(
  { collection, state, queueKey, index }: DueQueues<T>,
  queues?: readonly Queue[],
): Promise<QueueBeginning<Queue>[]> {
  const found = await collection
    .aggregate<{ _id: Queue; due_at: Date }>(
      [
        { $match: { state, ...(queues === undefined ? {} : { [queueKey]: { $in: queues } }) } },
        { $sort: { [queueKey]: 1, due_at: 1 } },
        { $group: { _id: `$${queueKey}`, due_at: { $first: '$due_at' } } },
      ],
      { hint: index as Record<string, 1> },
    )
    .toArray()
  return found
    .map(({ _id, due_at }) => ({ queue: _id, dueAt: due_at }))
    .sort((a, b) => a.dueAt.getTime() - b.dueAt.getTime())
}

/** The server plans a merge of many queues for longer than it reads them. */
const maxMerged = 50

/**
 * Up to `limit` of what is due by `until` in these queues, in order of time. `beginnings` are theirs, earliest first.
 * Only the first queues are merged, up to the moment at which the next one begins: the order is that of all of them.
 */
export async function readDue<T extends Document>(
  { collection, state, queueKey, idKey, index }: DueQueues<T>,
  beginnings: readonly QueueBeginning[],
  { until, limit, projection }: { until: Date; limit: number; projection: Document },
): Promise<T[]> {
  const due = beginnings.filter(({ dueAt }) => dueAt <= until)
  if (due.length === 0) return []
  const next = due[maxMerged]
  const filter = {
    state,
    [queueKey]: { $in: due.slice(0, maxMerged).map(({ queue }) => queue) },
    due_at: { $lte: next === undefined ? until : next.dueAt },
  } as unknown as Filter<T>
  return (await collection
    .find(filter, { projection, hint: index as Record<string, 1>, batchSize: limit + 1 })
    .sort({ due_at: 1, [idKey]: 1 })
    .limit(limit)
    .toArray()) as unknown as T[]
}
