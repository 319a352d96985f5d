import type { Database } from '../shared/runtime/database.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import type { Uploads } from '../shared/storage/uploads/open-uploads.ts'
import type { SecretBox } from '../shared/store/secrets.ts'
import type { EngineMetrics } from './metrics.ts'

/** What an engine's process opens once. What belongs to one registration is in registration.ts. */
export interface EngineParts {
  database: Database
  /** DATA_DIR. It has a problem while it isn't available here, or isn't the installation's. */
  folder: MarkedFolder
  /** The files of imports that haven't ended. */
  staging: Staging
  /** The upload directories of organizations. */
  uploads: Uploads
  /** Opens passwords in URLs and secrets of callbacks. */
  secrets: SecretBox
  /** Everything that the engine counts. */
  metrics: EngineMetrics
  log: Logger
}
