import type { ChunkDocument, ImportCounts, ImportDocument } from '../../shared/contract/schemas/import.ts'
import type { ImportErrorCode } from '../../shared/contract/errors.ts'
import type { StagingLocation } from '../../shared/storage/staging/open-staging.ts'

/**
 * The messages between the engine's main thread and its workers. They are plain values, because an Error loses its code
 * when it crosses threads. Rows cross with small imports only: else a worker reads them from the staged partition. The
 * report of a committed batch is in chunk-run.ts.
 */

/** Given to every worker when it starts. */
export interface WorkerStart {
  mongodbUri: string
  mongodbDatabase: string
  stagingLocation: StagingLocation
  engineId: string
  /** First counter stripe of this engine's lanes. Each lane of each worker has its own stripe. */
  firstStripe: number
  /** Number of the next lane, allocated with Atomics.add. */
  laneCounter: SharedArrayBuffer
}

/** Chunks that one worker runs at once: while one waits for the database, another one is parsed. */
export const lanesPerWorker = 2

export interface ChunkTask {
  importId: number
  chunkId: string
  token: string
  /** Two Int32: the cancel flag, see `cancellation`, and at `progressIndex` how often the task has read it. */
  cancellation: SharedArrayBuffer
}

/** A small import that is written whole. Its records cross threads, as they are in no file. */
export interface SmallImportTask {
  /** With what the split found. */
  document: ImportDocument
  chunks: ChunkDocument[]
  /** The partition. */
  bytes: Uint8Array
  /** Of the step. */
  token: string
  cancellation: SharedArrayBuffer
}

/** How the task of a small import ended. */
export type SmallImportReport =
  | { end: 'finished'; at: Date; counts: ImportCounts; keptBytes: number }
  /** The step is lost, or the import no longer runs. */
  | { end: 'lost' }
  /** It can't be written in one transaction now. Nothing of it was written. */
  | { end: 'not_written'; reason: string }

/** Values of a task's cancel flag, which is read before each batch. */
export const cancellation = { run: 0, stop: 1 } as const

/**
 * A chunk reads its cancel flag before each batch, each try and each wait, so the count of the reads shows its progress. A
 * small import reads it first of all.
 */
export const progressIndex = 1

/** How a chunk task ended. */
export type ChunkReport =
  /** All its batches are committed. */
  | { end: 'done' }
  /** It was told to stop. The committed batches count, and the next claim resumes behind them. */
  | { end: 'stopped' }
  /** The lease of the chunk is lost. */
  | { end: 'lost' }
  /**
   * A batch could not be written. `retryable`: because of the database, and a later attempt will succeed. With the `code`
   * of an ImportError, none will. Without either the cause is unknown, and attempts are limited. `isMissing`: this engine
   * doesn't find a file.
   */
  | { end: 'failed'; message: string; retryable: boolean; code: ImportErrorCode | null; isMissing: boolean }
