import type { AuthThrottle } from '../shared/store/api-keys.ts'
import type { Settings } from '../shared/runtime/config.ts'
import type { Database } from '../shared/runtime/database.ts'
import type { KeyedMutex } from '../shared/runtime/keyed-mutex.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { SecretBox } from '../shared/store/secrets.ts'
import type { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import type { StagedQuota } from '../shared/storage/uploads/staged-quota.ts'
import type { Uploads } from '../shared/storage/uploads/open-uploads.ts'
import type { BodyReader } from './api/body/read-body.ts'
import type { KnownCallers } from './api/known-callers.ts'
import type { LoginLog } from './api/login-log.ts'
import type { PiecePacer } from './api/piece-pacer.ts'
import type { AllSlots } from './api/slots.ts'
import type { SubscriberCounts } from './resources/subscriber-counts/service.ts'
import type { FieldCache } from './resources/subscribers/service.ts'
import type { SharedReads } from './store/shared-reads.ts'
import type { SubscriberWrites } from './store/subscribers-together.ts'
import type { Transfers } from './resources/uploads/transfers.ts'
import type { ImportWatch } from './resources/subscriber-imports/follow/import-watch.ts'

/** The dependencies of the control plane's parts, built in main.ts. */
export interface ControlPlane {
  settings: Settings
  database: Database
  /** Reads that concurrent requests share. */
  reads: SharedReads
  /** Counts an organization's subscribers by status. */
  subscriberCounts: SubscriberCounts
  /** DATA_DIR. No import is created while it can't be reached. */
  folder: MarkedFolder
  staging: Staging
  uploads: Uploads
  /** Checks an organization's quota when an import is created. */
  stagedQuota: StagedQuota
  throttle: AuthThrottle
  callers: KnownCallers
  logins: LoginLog
  importWatch: ImportWatch
  bodies: BodyReader
  /** Limit what is done at once, fairly by organization. */
  slots: AllSlots
  /** Shares the event loop among large replies and inspections. */
  pacer: PiecePacer
  /** The custom fields of lists that requests used. */
  fieldCache: FieldCache
  /** Group commit of the subscribers that requests create. */
  subscriberWrites: SubscriberWrites
  /** By list: creations write the list's document, and without a mutex they would only conflict with each other. */
  importCreations: KeyedMutex<number>
  /** The secret with which API keys are hashed (HMAC). */
  keyHashSecret: Uint8Array
  /** The secret with which page tokens are signed. */
  pageTokenSecret: Uint8Array
  /** Encrypts the secrets of imports, such as passwords in URLs. */
  secrets: SecretBox
  /** Uploads and downloads of files in progress. */
  transfers: Transfers
  /** The address that links in mails begin with. It is known once the server listens. */
  publicUrl: () => string
  /** The address that people are told to connect to by FTP; null where none is known. */
  ftpUrl: () => string | null
  log: Logger
  /**
   * Aborted with `Stopping` when the process stops. From then on endless streams end, and bodies have to arrive soon.
   */
  stopping: AbortSignal
}
