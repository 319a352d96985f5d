import type { ClientSession } from 'mongodb'
import type { AddressGuard } from '../../shared/net/address-guard.ts'
import { databaseTime, type Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'
import type { SecretBox } from '../../shared/runtime/secret-box.ts'
import type { DownloadBounds } from '../../shared/net/download-bounds.ts'
import type { MarkedFolder } from '../../shared/storage/staging/marked-folder.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import type { StagedQuota } from '../../shared/storage/uploads/staged-quota.ts'
import type { Uploads } from '../../shared/storage/uploads/upload-store.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { MissedFiles } from './missed-files.ts'
import type { StepBounds, StepProgress } from './step-progress.ts'
import type { WorkerPool } from '../workers/pool.ts'

/** What one engine does for an import as a whole: whose it is, and what it works with. */
export interface StepContext {
  /** For transactions: noted with the engine, so that whoever takes over from it ends them. */
  session: ClientSession
  database: Database
  folder: MarkedFolder
  staging: Staging
  uploads: Uploads
  secrets: SecretBox
  /** What organizations may have staged. */
  quota: StagedQuota
  /** Says which addresses downloads may reach. */
  guard: AddressGuard
  bounds: DownloadBounds
  stepBounds: StepBounds
  /** Bytes from which on two threads split a source; by default what is worth it. */
  twoThreadsFrom?: number
  stripe: string
  pool: WorkerPool
  metrics: EngineMetrics
  missedFiles: MissedFiles
  log: Logger
  /** Aborted when the import is paused, cancelled or no longer this engine's. */
  signal: AbortSignal
}

/** The import, and the token under which its step is held. */
interface Step {
  id: number
  token: string
}

/** A step under way. */
export interface StepRun extends StepContext {
  /** As it was when the step was claimed. */
  document: ImportDocument
  step: Step
  /** Its `staging` counts here; so does what else moves. */
  progress: StepProgress
}

/** Of the time for all tries, in ms, by the database's clock. */
export async function downloadTimeLeft({ document, database }: StepRun): Promise<number> {
  return document.download.ends_at!.getTime() - (await databaseTime(database.db)).getTime()
}
