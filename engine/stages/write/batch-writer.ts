import { deflateSync } from 'node:zlib'
import { outcomeId } from '../../../shared/contract/schemas/import.ts'
import { dropReactionsInLists, recordTriggered } from '../../../shared/store/reactions.ts'
import { changeCountsOfLane } from '../../../shared/store/subscriber-counts.ts'
import type { BatchDraft } from './batch-draft.ts'
import { insertBson, updateBson } from './bson/bson-commands.ts'
import type { ChunkRun } from './chunk-run.ts'

/** Inside the batch's transaction: the lines of the logs. */
export async function writeLogs(run: ChunkRun, { buffers, logs }: BatchDraft): Promise<void> {
  const { database, lane, chunk } = run
  const { db, collections } = database
  const { session } = lane
  await insertBson({ db, collection: collections.failures, session }, buffers.failures)
  if (logs.length === 0) return
  // The lines of a batch are in the order of identities, as these logs are. The `failed` log is in the order of the file,
  // so each failed row is a document, whose `_id` sorts so. Compressing is synchronous: 25 KB of 1,000 records take 147 us
  // of CPU, and 224 with the thread pool. zstd would save 0.06 us a row, for a second format.
  const compressed = logs.map(([kind, lines]) => [kind, deflateSync(lines.bytes, { level: 1 })] as const)
  await collections.outcomes.insertOne(
    { _id: outcomeId(chunk._id, run.position), logs: Object.fromEntries(compressed) },
    { session, bypassDocumentValidation: true },
  )
}

/** Inside the batch's transaction: subscribers, their reactions, and the list's counts on the lane's stripe. */
export async function writeSubscribers(
  run: ChunkRun,
  { buffers, leaving, statusChanges }: BatchDraft,
): Promise<void> {
  const { database, lane, context } = run
  const { db, collections } = database
  const { session, stripe } = lane
  const { mailing_list_id: listId, organization_id: organizationId } = context.document
  const subscribers = { db, collection: collections.subscribers, session }
  await insertBson(subscribers, buffers.subscribers)
  await insertBson({ db, collection: collections.reactions, session }, buffers.reactions)
  await updateBson(subscribers, buffers.updates)
  await dropReactionsInLists(collections, session, [listId], leaving)
  const moved = { organizationId, listId, changes: statusChanges }
  await changeCountsOfLane(collections, session, stripe, moved)
}

/**
 * Stores in the autoresponders when they last queued reactions. Runs after the commit and ignores errors: the next
 * batch that queues some stores it again.
 */
export async function recordTriggeredByBatch(run: ChunkRun, { triggered, now }: BatchDraft): Promise<void> {
  const { database, context } = run
  const when = { zone: context.plan.time_zone_name, at: now }
  await recordTriggered(database, triggered, when).catch(() => undefined)
}
