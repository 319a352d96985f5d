import { clock } from '../../../shared/runtime/clock.ts'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { identitiesOf, type Batch } from '../../../shared/csv/chunk-records.ts'
import { endOfRecordAt } from '../../../shared/csv/partition-file.ts'
import type { ExistingSubscriber } from '../../../shared/csv/row-decision.ts'
import { findValueSizes, type ValueSizes } from '../../../shared/store/value-bytes.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import { longRowBytes, type BatchStart } from './batch-draft.ts'
import type { ChunkRun } from './chunk-run.ts'
import { findExisting } from './existing-subscribers.ts'

/** Inside a batch's transaction: reads the state on which the decisions about its records depend. */
export async function readBatchStart(
  run: ChunkRun,
  batch: Batch,
): Promise<Pick<BatchStart, 'existing' | 'now' | 'valueSizes' | 'reactions'>> {
  const [existing, now] = await Promise.all([
    readExisting(run, batch),
    // Reactions are sent by the database's clock. Without them the time is only shown.
    run.context.reactionsPerRecord === 0 ? clock.now() : databaseTime(run.database.db),
  ])
  const valueSizes = await readValueSizes(run, batch, existing)
  return { existing, now, valueSizes, reactions: await readReactions(run, existing) }
}

async function readExisting(run: ChunkRun, batch: Batch): Promise<Map<string, ExistingSubscriber>> {
  const { database, lane, chunk, context } = run
  if (!run.readsExisting || chunk.kind === 'unidentified') return new Map()
  const keys: string[] = []
  let last: string | null = null
  // Records of one identity follow each other.
  for (const identity of identitiesOf(batch)) {
    if (identity !== last) keys.push(subscriberKey(context.document.mailing_list_id, identity))
    last = identity
  }
  return findExisting(database, lane.session, keys, context.decider.projection)
}

/**
 * Value sizes of the existing subscribers that long rows update. Not for short rows: only very many of them
 * make a subscriber too large, and then the database refuses the write.
 */
async function readValueSizes(
  { database, lane, context }: ChunkRun,
  batch: Batch,
  existing: Map<string, ExistingSubscriber>,
): Promise<ValueSizes> {
  const { options, mailing_list_id: listId } = context.document
  if (existing.size === 0 || !options.overwrite || !options.overwrite_what.custom_fields) return new Map()
  const maxShortBytes = longRowBytes - context.defaultBytes.updated
  const long = batch.offsets.filter((offset) => endOfRecordAt(batch.bytes, offset) - offset > maxShortBytes)
  if (long.length === 0) return new Map()
  const identities = identitiesOf({ offsets: long, bytes: batch.bytes })
  const keys = [...identities].map((identity) => subscriberKey(listId, identity))
  return findValueSizes(database.collections, [...new Set(keys)], { session: lane.session })
}

/** `_id`s of the reactions that this import has queued already for the existing subscribers. */
async function readReactions(run: ChunkRun, existing: Map<string, ExistingSubscriber>): Promise<Set<string>> {
  const { database, lane, context } = run
  const { document, reactions, reactionsPerRecord } = context
  if (!run.readsReactions || reactionsPerRecord === 0 || !document.options.overwrite) return new Set()
  const keys = [...existing.values()].flatMap(({ id }) => reactions.idsOfUpdate(id))
  const found = await database.collections.reactions
    .find(
      { _id: { $in: keys } },
      { session: lane.session, projection: { _id: 1 }, batchSize: keys.length + 1 },
    )
    .toArray()
  return new Set(found.map(({ _id }) => _id))
}
