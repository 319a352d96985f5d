import type { ClientSession } from 'mongodb'
import type { AddressGuard } from '../../shared/net/address-guard.ts'
import { databaseTime, type Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'
import type { SecretBox } from '../../shared/store/secrets.ts'
import type { DownloadBounds } from '../../shared/net/download-bounds.ts'
import type { MarkedFolder } from '../../shared/storage/staging/marked-folder.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import type { StagedQuota } from '../../shared/storage/uploads/staged-quota.ts'
import type { Uploads } from '../../shared/storage/uploads/open-uploads.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { MissedFiles } from './missed-files.ts'
import type { StepProgress } from './step-progress.ts'
import type { Watch } from './watchdog.ts'
import type { WorkerPool } from '../workers/pool.ts'

/** What an engine's steps (obtain, split, finish) use. Its other parts use some of it. */
export interface StepContext {
  /** For the step's transactions. It is registered with the engine, so that an engine that takes over ends them. */
  session: ClientSession
  database: Database
  folder: MarkedFolder
  staging: Staging
  uploads: Uploads
  secrets: SecretBox
  /** Limits of what organizations may have staged. */
  quota: StagedQuota
  /** Says which addresses downloads may reach. */
  guard: AddressGuard
  bounds: DownloadBounds
  watch: Watch
  stripe: string
  pool: WorkerPool
  metrics: EngineMetrics
  missedFiles: MissedFiles
  log: Logger
  /**
   * Aborted when this engine must leave the step: it stops or isolates other work, its folder is unavailable, the
   * import was paused, cancelled or failed, or another engine has the step.
   */
  signal: AbortSignal
}

/** A running step. */
export interface StepRun extends StepContext {
  /** The import as it was when the step was claimed. */
  document: ImportDocument
  /** The lease of the import's step: the import's id and the lease's token. */
  step: { id: number; token: string }
  /** Counted up by `staging`, and by everything else that shows progress. */
  progress: StepProgress
}

/** Milliseconds left of the time for all attempts of the download, by the database's clock. */
export async function downloadTimeLeft({ document, database }: StepRun): Promise<number> {
  return document.download.ends_at!.getTime() - (await databaseTime(database.db)).getTime()
}
