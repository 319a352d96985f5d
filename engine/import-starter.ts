import { clock } from '../shared/clock.ts'
import { peekNextId, type Database } from '../shared/database.ts'
import { messageOf } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'
import type { UploadDocument } from '../shared/schemas/import.ts'
import { listDueImports, listHeldLists, startImport, type DueImport } from '../shared/store/imports.ts'
import { beginImportEpoch } from '../shared/store/subscriber-counts.ts'
import type { Uploads } from '../shared/uploads/upload-store.ts'
import type { EngineMetrics } from './metrics.ts'

export interface ImportStarterOptions {
  database: Database
  uploads: Uploads
  metrics: EngineMetrics
  log: Logger
  /** An import began after `startDue` had ended. */
  onStarted: () => void
}

/**
 * Starts the imports that are due and whose list is free: one at a time on a list, a dry run beside any. The file of an
 * upload is pinned before.
 */
export class ImportStarter {
  readonly #options: ImportStarterOptions
  /** Imports that are just being started, with the list that they are to have. */
  readonly #starting = new Map<number, { listId: number | null; ended: Promise<void> }>()
  readonly #stopping = new AbortController()

  constructor(options: ImportStarterOptions) {
    this.#options = options
  }

  async startDue(): Promise<void> {
    const { collections } = this.#options.database
    const held = await listHeldLists(collections)
    const due = await listDueImports(collections, held)
    const taken = new Set([...held, ...[...this.#starting.values()].map((start) => start.listId)])
    for (const entry of due) {
      const waits = !entry.options.dry_run && taken.has(entry.mailing_list_id)
      if (waits || this.#starting.has(entry._id)) continue
      if (!entry.options.dry_run) taken.add(entry.mailing_list_id)
      if (entry.source.type === 'upload_directory') this.#startPinned(entry)
      else await this.#startNow(entry)
    }
  }

  /** Breaks off pins that are being made; resolves when none is. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#starting.values()].map((start) => start.ended))
  }

  async #startNow(entry: DueImport, upload?: UploadDocument): Promise<boolean> {
    const { database, metrics, log } = this.#options
    const { collections } = database
    // Ids are drawn up to 20 s before the insertion commits, so the id alone does not tell who was there before.
    const importEpoch = entry.options.deactivate_subscribers_not_in_import
      ? await beginImportEpoch(collections, {
          organizationId: entry.organization_id,
          listId: entry.mailing_list_id,
        })
      : undefined
    const firstNewSubscriberId = await peekNextId(collections, 'subscriber')
    const isOurs = await startImport(collections, entry._id, { firstNewSubscriberId, importEpoch, upload })
    if (isOurs) {
      const waitedMs = clock.now().getTime() - entry.begins_at.getTime()
      metrics.stageEnded('wait', Math.max(0, waitedMs) / 1000)
      log.info({ import_id: entry._id }, 'import started')
    }
    return isOurs
  }

  /** Beside the loop: where a pin is a copy it takes a moment, which is the other imports' as well. */
  #startPinned(entry: DueImport): void {
    const ended = this.#pinAndStart(entry)
      .catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `an import can't be started, trying again: ${messageOf(error)}`,
        )
      })
      .finally(() => this.#starting.delete(entry._id))
    this.#starting.set(entry._id, { listId: entry.options.dry_run ? null : entry.mailing_list_id, ended })
  }

  /** The file is kept before the import leaves `scheduled`, so nothing that is done to it from then on is seen. */
  async #pinAndStart(entry: DueImport): Promise<void> {
    const { uploads, log, onStarted } = this.#options
    const { _id: importId, organization_id: organizationId, source } = entry
    const { signal } = this.#stopping
    let upload: UploadDocument | undefined
    try {
      const pin = await uploads.pin({ organizationId, name: source.filename, importId, signal })
      upload = { pin, waiting: null }
    } catch (error) {
      // Another engine begins it.
      if (signal.aborted) return
      // Its step has a few tries, and says what it was when it fails; with the database away none of this is heard.
      log.warn(
        { import_id: importId },
        `the file ${JSON.stringify(source.filename)} can't be kept for an import that begins: ${messageOf(error)}`,
      )
    }
    const isOurs = await this.#startNow(entry, upload)
    if (isOurs) onStarted()
    else if (upload?.pin) await uploads.releasePin(upload.pin)
  }
}
