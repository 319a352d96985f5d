import type { ImportErrorCode } from '../../shared/contract/errors.ts'
import type { StagingLocation } from '../../shared/storage/staging/open-staging.ts'

/**
 * What the engine's main thread and its workers say to each other. Plain values only: an Error that crosses a thread
 * loses its code. Rows never do; the worker reads them from the staged partition. What a tail's scan is asked and
 * answers is in stages/split/tail-scan.ts, what is told of a committed batch in stages/write/batch-writer.ts.
 */

/** Handed to every worker when it starts. */
export interface WorkerStart {
  mongodbUri: string
  mongodbDatabase: string
  stagingLocation: StagingLocation
  engineId: string
  /** First of the counter stripes that this engine writes; each lane of each worker takes one. */
  firstStripe: number
  /** Next free lane, taken with Atomics.add. */
  laneCounter: SharedArrayBuffer
}

/** Chunks that one worker has in hand at once. While one waits for the database, another one is parsed. */
export const lanesPerWorker = 2

export interface ChunkTask {
  kind: 'chunk'
  importId: number
  chunkId: string
  token: string
  /** One Int32: see `control`. */
  cancellation: SharedArrayBuffer
}

/** Values of a task's cancel flag, which is read before each batch. */
export const cancellation = { run: 0, stop: 1 } as const

/** How a chunk task ended. */
export type ChunkReport =
  /** All its batches are committed. */
  | { end: 'done' }
  /** Told to stop; what is committed counts, the rest goes on from there. */
  | { end: 'stopped' }
  /** Somebody else holds the chunk now. */
  | { end: 'lost' }
  /**
   * A batch could not be written. `retryable`: the database's doing, later it will go well. With an ImportError's
   * `code` it never will. Neither: nobody knows, and a few tries will tell. `isMissing`: a file is gone for this engine.
   */
  | { end: 'failed'; message: string; retryable: boolean; code: ImportErrorCode | null; isMissing: boolean }
