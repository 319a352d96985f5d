import { cutBatches, listRecords, sortedByIdentity, type Batch } from '../../../shared/csv/chunk-records.ts'
import {
  piecesLength,
  readAllPieces,
  readInPieces,
  refuseDamaged,
} from '../../../shared/csv/partition-file.ts'
import type { ChunkDocument } from '../../../shared/contract/schemas/import.ts'
import type { StagedFile } from '../../../shared/storage/staging/staging.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import type { Lane } from './lane.ts'

export type ChunkBatch = Batch & { isLast: boolean }

/** A chunk of one identity may have any size; a larger one than this is read piece by piece. */
const maxBytesInMemory = 8 * binaryMegabyte

/**
 * The chunk's batches, in an order that depends on nothing but its bytes: all attempts cut the same ones. Throws
 * ImportError `chunk_damaged`.
 */
export async function* readBatches(
  chunk: ChunkDocument,
  partition: StagedFile,
  lane: Lane,
): AsyncGenerator<ChunkBatch> {
  if (chunk.kind === 'single_identity' && piecesLength(chunk.pieces) > maxBytesInMemory) {
    yield* readBatchesInPieces(chunk, partition)
    return
  }
  const { bytes, crc } = await readAllPieces(partition, chunk.pieces, lane.buffer)
  if (bytes.length > lane.buffer.length) lane.buffer = bytes
  refuseDamaged(chunk, crc)
  const offsets = listRecords(bytes)
  const batches = cutBatches(chunk.kind === 'sorted' ? sortedByIdentity(offsets, bytes) : offsets, bytes)
  for (const [i, batch] of batches.entries()) yield { ...batch, isLast: i === batches.length - 1 }
}

/** Reads all pieces twice, as the checksum is known only after the last one. */
async function* readBatchesInPieces(chunk: ChunkDocument, partition: StagedFile): AsyncGenerator<ChunkBatch> {
  let checksum = 0
  for await (const { crc } of readInPieces(partition, chunk.pieces)) checksum = crc
  refuseDamaged(chunk, checksum)
  let remaining = chunk.record_count
  for await (const { bytes } of readInPieces(partition, chunk.pieces)) {
    for (const batch of cutBatches(listRecords(bytes), bytes)) {
      remaining -= batch.offsets.length
      yield { ...batch, isLast: remaining === 0 }
    }
  }
}
