import type { ClientSession } from 'mongodb'
import type { AddressGuard } from '../../shared/net/address-guard.ts'
import { databaseTime } from '../../shared/runtime/database.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'
import type { DownloadBounds } from '../../shared/net/download-bounds.ts'
import type { StagedQuota } from '../../shared/storage/uploads/staged-quota.ts'
import type { EngineParts } from '../engine-parts.ts'
import type { MissedFiles } from './missed-files.ts'
import type { StepProgress } from './step-progress.ts'
import type { WorkerPool } from '../workers/pool.ts'
import type { Watch } from './watchdog.ts'

/** What all steps of an engine (obtain, split, finish) use. */
export interface StepOptions extends EngineParts {
  /** Limits of what organizations may have staged. */
  quota: StagedQuota
  /** Says which addresses downloads may reach. */
  guard: AddressGuard
  /** Sizes, times and tries of downloads. */
  bounds: DownloadBounds
  /** Ends the process where a step makes no progress. */
  watch: Watch
  /** Writes small imports. */
  pool: Pick<WorkerPool, 'writeSmallImport'>
  /** The stripe of counts that this engine's steps write. */
  stripe: string
  /** Remembers of which imports this engine missed a staged file. */
  missedFiles: MissedFiles
}

/** A step that was claimed. */
export interface ClaimedStep {
  /** The import as it was when the step was claimed. */
  document: ImportDocument
  /** The lease of the import's step: the import's id and the lease's token. */
  step: { id: number; token: string }
  /** For the step's transactions. It is registered with the engine, so that an engine that takes over ends them. */
  session: ClientSession
  /**
   * Aborted when this engine must leave the step: it stops or isolates other work, its folder is unavailable, the
   * import was paused, cancelled or failed, or another engine has the step.
   */
  signal: AbortSignal
}

/** A running step. */
export interface StepRun extends StepOptions, ClaimedStep {
  /** Counted up by `staging`, and by everything else that shows progress. */
  progress: StepProgress
}

/** Milliseconds left of the time for all attempts of the download, by the database's clock. */
export async function downloadTimeLeft({ document, database }: StepRun): Promise<number> {
  return document.download.ends_at!.getTime() - (await databaseTime(database.db)).getTime()
}
