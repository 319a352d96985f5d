import type { Filter } from 'mongodb'
import {
  openPartition,
  readInPieces,
  readRecordAt,
  refuseDamaged,
} from '../../../shared/csv/partition-file.ts'
import type { ChunkDocument, ImportDocument, ImportPlan } from '../../../shared/contract/schemas/import.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import type { StagedFile } from '../../../shared/storage/staging/staging.ts'
import { documentsPerQuery, keyRanges } from '../../../shared/store/key-ranges.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { StepRun } from '../../runner/step.ts'

/**
 * The search for subscribers that are absent from the import's file: active, on the list when the import began, and of
 * an identity that no record has. Each chunk's identities are compared with the subscribers of its range; all ranges
 * together are the whole list. Memory holds the identities of one chunk.
 */

interface Range {
  chunk: ChunkDocument
  partition: StagedFile
}

/** The ranges from the chunk numbered `from` on, without those whose deactivation is done. */
export async function* openRanges(
  { document, staging, database }: StepRun,
  from: number,
): AsyncGenerator<Range> {
  const partition = await openPartition(staging, document)
  try {
    const chunks = await database.collections.chunks
      .find({ import_id: document._id, kind: { $ne: 'unidentified' } })
      .sort({ number: 1 })
      .toArray()
    // Ranges are deactivated in this order, and one without absent subscribers may have stored no progress.
    const begun = chunks.findLast((chunk) => chunk.deactivated_to !== null)
    const first = Math.max(from, begun?.number ?? 0)
    // A file without any identity has no ranges, and then the import has failed before this.
    for (const chunk of chunks) if (chunk.number >= first) yield { chunk, partition }
  } finally {
    await partition.close()
  }
}

/** A part of a range: keys of its absent subscribers in ascending order, up to the key `to`. */
interface SearchedPart {
  absent: string[]
  to: string
}

/** Searches a range from the key `from` on; null is its beginning. Throws what readIdentities throws. */
export async function* searchRange(
  { document, database, signal, progress }: StepRun,
  { chunk, partition }: Range,
  from: string | null,
): AsyncGenerator<SearchedPart> {
  const { subscribers } = database.collections
  const listId = document.mailing_list_id
  const present = await readIdentities(chunk, partition)
  const range = {
    $gte: from ?? subscriberKey(listId, chunk.from ?? ''),
    $lt: chunk.to === null ? `${listId};` : subscriberKey(listId, chunk.to),
  }
  for await (const _id of keyRanges(subscribers, range)) {
    const active = await subscribers
      .find({ _id, ...activeAtStart(document) }, { projection: { _id: 1 }, batchSize: documentsPerQuery + 1 })
      .sort({ _id: 1 })
      .toArray()
    signal.throwIfAborted()
    progress.add()
    const keys = active.map((subscriber) => subscriber._id)
    const isAbsent = (key: string) => !present.has(key.slice(subscriberKey(listId, '').length))
    yield { absent: keys.filter(isAbsent), to: _id.$lt }
  }
}

/** Active subscribers that were on the list when the import began. */
export function activeAtStart(document: ImportDocument): Filter<SubscriberDocument> {
  const { import_epoch: epoch, first_new_subscriber_id: firstNewId } = document
  if (firstNewId === null) throw new Error(`import ${document._id} deactivates no subscribers`)
  return {
    status: 'active',
    id: { $lt: firstNewId },
    import_epoch: { $not: { $gte: epoch } },
  }
}

/** The plan is stored before the split, so an import that is finished has one. */
export function requirePlan({ _id, plan }: ImportDocument): ImportPlan {
  if (plan === null) throw new Error(`import ${_id} has no plan`)
  return plan
}

/**
 * The checksum is verified again: a subscriber whose identity was lost on the disk since the chunk was written would be
 * deactivated. Throws ImportError `chunk_damaged`.
 */
async function readIdentities(chunk: ChunkDocument, partition: StagedFile): Promise<Set<string>> {
  const identities = new Set<string>()
  let checksum = 0
  for await (const { bytes, crc } of readInPieces(partition, chunk.pieces)) {
    checksum = crc
    for (let record = readRecordAt(bytes, 0); record !== null; record = readRecordAt(bytes, record.end)) {
      identities.add(bytes.toString('utf8', record.identityStart, record.start))
    }
  }
  refuseDamaged(chunk, checksum)
  return identities
}
