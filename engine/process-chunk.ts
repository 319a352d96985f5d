import type { ClientSession, Db } from 'mongodb'
import { isCommandTimeout } from '../shared/runtime/database.ts'
import { ImportError, messageOf } from '../shared/contract/errors.ts'
import {
  cutBatches,
  identityAt,
  listRecords,
  sortedByIdentity,
  type Batch,
} from '../shared/csv/chunk-records.ts'
import {
  extentsLength,
  openPartition,
  readExtents,
  readInPieces,
  refuseDamaged,
  type Partition,
} from '../shared/csv/partition-file.ts'
import type { Collections } from '../shared/contract/schemas/collections.ts'
import type { ChunkDocument } from '../shared/contract/schemas/import.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import { readLeasedChunk } from '../shared/store/chunks.ts'
import { readState } from '../shared/store/imports.ts'
import type { BatchBuffers } from './stages/write/batch-draft.ts'
import { BatchWriter, type BatchReport } from './stages/write/batch-writer.ts'
import type { ImportContext } from './stages/write/import-context.ts'
import { retryReason } from './stages/write/transaction.ts'
import type { ChunkReport, ChunkTask } from './workers/messages.ts'

/** A worker's slot for one chunk at a time: a session of its own and a counter stripe that nobody else writes. */
export interface Lane {
  session: ClientSession
  stripe: string
  /** Memory for a chunk, taken again for the next one; grows to what chunks need. */
  buffer: Buffer
  batchBuffers: BatchBuffers
}

export interface ProcessChunkOptions {
  db: Db
  collections: Collections
  staging: Staging
  lane: Lane
  task: ChunkTask
  importContext: (importId: number) => Promise<ImportContext | null>
  limitOf: (organizationId: number) => Promise<number | null>
  isStopped: () => boolean
  onBatch: (report: BatchReport) => void
}

/** A chunk of one identity may have any size; beyond this one it is read piece by piece. */
const wholeInMemoryBytes = 8 * 1024 * 1024

/** One chunk: read its records, put them in order, and write batch after batch from the first one not done. */
export async function processChunk(options: ProcessChunkOptions): Promise<ChunkReport> {
  const { collections, staging, task } = options
  try {
    const chunk = await readLeasedChunk(collections, task.chunkId, task.token)
    const context = await options.importContext(task.importId)
    if (chunk === null || context === null) return { end: 'lost' }
    const file = await openPartition(staging, context.document)
    try {
      return await writeBatches(options, chunk, context, batchesOf(chunk, file, options.lane))
    } finally {
      await file.close()
    }
  } catch (error) {
    return {
      end: 'failed',
      message: messageOf(error),
      retryable: isPassing(error),
      code: error instanceof ImportError ? error.code : null,
      isMissing: error instanceof ImportError && error.isMissing,
    }
  }
}

/** A key that is taken again and again is nothing that passes, nor is a command that takes too long. */
const isPassing = (error: unknown): boolean => {
  const reason = retryReason(error)
  return reason !== null && reason !== 'duplicate_key' && !isCommandTimeout(error)
}

async function writeBatches(
  options: ProcessChunkOptions,
  chunk: ChunkDocument & { token: string },
  context: ImportContext,
  batches: AsyncIterable<Batch & { isLast: boolean }>,
): Promise<ChunkReport> {
  const { document } = context
  const { collections } = options
  const writer = new BatchWriter({
    db: options.db,
    collections,
    session: options.lane.session,
    stripe: options.lane.stripe,
    buffers: options.lane.batchBuffers,
    context,
    chunk,
    limit: () => options.limitOf(document.organization_id),
    isStopped: options.isStopped,
    isImporting: async () => (await readState(collections, document._id)) === 'importing',
    onCommit: options.onBatch,
  })
  let position = 0
  for await (const batch of batches) {
    const { offsets, bytes } = batch
    const done = Math.min(offsets.length, Math.max(0, chunk.next_record - position))
    position += offsets.length
    if (done > 0 && position >= chunk.next_record) {
      const last = chunk.kind === 'unidentified' ? null : identityAt(bytes, offsets[done - 1]!)
      writer.resumeAfter(chunk.next_record, last)
    }
    if (done === offsets.length) continue
    const isWritten = await writer.write({ offsets: offsets.subarray(done), bytes }, batch.isLast)
    if (!isWritten) return { end: options.isStopped() ? 'stopped' : 'lost' }
  }
  return { end: 'done' }
}

/** The chunk's records in its order, portion by portion; the order depends on nothing but its bytes. */
async function* batchesOf(
  chunk: ChunkDocument,
  file: Partition,
  lane: Lane,
): AsyncGenerator<Batch & { isLast: boolean }> {
  if (chunk.kind === 'single_identity' && extentsLength(chunk.extents) > wholeInMemoryBytes) {
    yield* batchesInPieces(chunk, file)
    return
  }
  const { bytes, crc } = await readExtents(file, chunk.extents, lane.buffer)
  if (bytes.length > lane.buffer.length) lane.buffer = bytes
  refuseDamaged(chunk, crc)
  const offsets = listRecords(bytes)
  const batches = cutBatches(chunk.kind === 'sorted' ? sortedByIdentity(offsets, bytes) : offsets, bytes)
  for (const [i, batch] of batches.entries()) yield { ...batch, isLast: i === batches.length - 1 }
}

async function* batchesInPieces(
  chunk: ChunkDocument,
  file: Partition,
): AsyncGenerator<Batch & { isLast: boolean }> {
  let checksum = 0
  for await (const { crc } of readInPieces(file, chunk.extents)) checksum = crc
  refuseDamaged(chunk, checksum)
  let left = chunk.record_count
  for await (const { bytes } of readInPieces(file, chunk.extents)) {
    for (const batch of cutBatches(listRecords(bytes), bytes)) {
      left -= batch.offsets.length
      yield { ...batch, isLast: left === 0 }
    }
  }
}
