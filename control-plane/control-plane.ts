import type { AuthThrottle } from '../shared/store/api-keys.ts'
import type { Settings } from '../shared/runtime/config.ts'
import type { Database } from '../shared/runtime/database.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { SecretBox } from '../shared/runtime/secret-box.ts'
import type { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import type { StagedQuota } from '../shared/storage/uploads/staged-quota.ts'
import type { Uploads } from '../shared/storage/uploads/upload-store.ts'
import type { KnownCallers } from './api/known-callers.ts'
import type { ImportWatch } from './resources/subscriber-imports/follow/import-watch.ts'

/** What the control plane's parts work with; put together in main.ts. */
export interface ControlPlane {
  settings: Settings
  database: Database
  /** DATA_DIR; without it no import is created. */
  folder: MarkedFolder
  staging: Staging
  uploads: Uploads
  /** Of organizations, as imports that are created meet it. */
  stagedQuota: StagedQuota
  throttle: AuthThrottle
  callers: KnownCallers
  importWatch: ImportWatch
  /** Key of the API keys' hashes. */
  keyHashSecret: Uint8Array
  /** Encrypts what imports need and nobody else may read. */
  secrets: SecretBox
  /** What links begin with; known when the server listens. */
  publicUrl: () => string
  log: Logger
  /** Aborted when the process stops: what waits is refused from then on, and streams that would go on for ever end. */
  stopping: AbortSignal
}
