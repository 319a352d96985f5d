import { peekNextId, type Database } from '../../shared/runtime/database.ts'
import { messageOf } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { sourceTypes, type SourceType, type UploadDocument } from '../../shared/contract/schemas/import.ts'
import {
  listDueDryRuns,
  listFirstOfLists,
  listOrganizationsWithDryRuns,
  readDueImports,
  type DueImport,
  type WaitingImport,
  type WorkingImport,
} from '../store/import-queues.ts'
import { listLockedLists, startImport } from '../../shared/store/imports.ts'
import { beginImportEpoch } from '../../shared/store/subscriber-counts.ts'
import { FolderUnavailable } from '../../shared/storage/staging/marked-folder.ts'
import type { UploadPin, Uploads } from '../../shared/storage/uploads/upload-store.ts'
import { within } from '../../shared/runtime/within.ts'
import type { EngineMetrics } from '../metrics.ts'
import { inRounds } from './organization-rounds.ts'
import type { StepBounds } from './step-progress.ts'

export interface ImportStarterOptions {
  database: Database
  uploads: Uploads
  metrics: EngineMetrics
  stepBounds: StepBounds
  log: Logger
  /** An import began after `startDue` had ended. */
  onStarted: () => void
}

/** An import that is just being started. */
interface StartingImport extends Pick<WaitingImport, 'organization_id' | 'sourceType' | 'listId'> {
  ended: Promise<void>
}

/** Imports started in one poll; steps and chunks of others are claimed in between. */
const maxStartsPerPoll = 16
/**
 * Imports of one organization that are started and have something to be done: downloads, and all others. More wait in
 * `scheduled`, so that what engines read stays small, however many are due at one moment.
 */
const maxStartedOfOrganization = 32
/** Files pinned at once, those included whose pin hangs: each may use one of the process's threads for files. */
export const maxPins = 8
/** Organizations whose dry runs are read in one poll. */
const maxDryRunReads = 16

/**
 * Starts the imports that are due and whose list is free: one at a time on a list, a dry run beside any. Organizations
 * take turns: each one's oldest import, then each one's second. The file of an upload is pinned before.
 */
export class ImportStarter {
  readonly #options: ImportStarterOptions
  /** Imports that are just being started, with the list that they are to have. */
  readonly #starting = new Map<number, StartingImport>()
  readonly #stopping = new AbortController()
  #pins = 0
  #hungPins = 0

  constructor(options: ImportStarterOptions) {
    this.#options = options
  }

  /** Pins that have not ended in time, because a read or write of the file hangs. */
  get hung(): number {
    return this.#hungPins
  }

  /** Given those that are started. Resolves to how many it started, and whether it left others for the next poll. */
  async startDue(working: readonly WorkingImport[]): Promise<{ started: number; isMoreDue: boolean }> {
    const due = await this.#listStartable(working)
    const batch = due.slice(0, maxStartsPerPoll)
    if (batch.length === 0) return { started: 0, isMoreDue: false }
    const documents = await readDueImports(
      this.#options.database.collections,
      batch.map(({ _id }) => _id),
    )
    const byId = new Map(documents.map((document) => [document._id, document]))
    let started = 0
    for (const { _id } of batch) {
      const entry = byId.get(_id)
      // It was cancelled or another engine started it.
      if (entry === undefined) continue
      if (entry.source.type === 'upload_directory') this.#startPinned(entry)
      else if (await this.#startNow(entry)) started += 1
    }
    return { started, isMoreDue: due.length > batch.length }
  }

  /** What may be started now, in the order in which it is to be. */
  async #listStartable(working: readonly WorkingImport[]): Promise<WaitingImport[]> {
    const { collections } = this.#options.database
    const started = new StartedImports(working, this.#starting.values())
    const [locked, firstOfLists, withDryRuns] = await Promise.all([
      listLockedLists(collections),
      listFirstOfLists(collections),
      listOrganizationsWithDryRuns(collections),
    ])
    const dryRuns = await Promise.all(
      withDryRuns
        .filter((organizationId) => started.kindsWithFreeSlots(organizationId).length > 0)
        .sort((a, b) => started.count(a) - started.count(b))
        .slice(0, maxDryRunReads)
        .map((organizationId) =>
          listDueDryRuns(collections, organizationId, {
            sourceTypes: started.kindsWithFreeSlots(organizationId),
            // Those that are just being started are among the first ones.
            limit: maxStartsPerPoll + this.#starting.size,
          }),
        ),
    )
    const taken = new Set([...locked, ...[...this.#starting.values()].map(({ listId }) => listId)])
    const waiting = [...firstOfLists.filter(({ listId }) => !taken.has(listId)), ...dryRuns.flat()]
      .filter(({ _id }) => !this.#starting.has(_id))
      .sort((a, b) => a.begins_at.getTime() - b.begins_at.getTime() || a._id - b._id)
    let pinsLeft = maxPins - this.#pins
    return inRounds(waiting, (organizationId) => started.count(organizationId)).filter((entry) => {
      const isPinned = entry.sourceType === 'upload_directory'
      if ((isPinned && pinsLeft === 0) || !started.add(entry)) return false
      if (isPinned) pinsLeft -= 1
      return true
    })
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
    const startedAt = await startImport(collections, entry._id, { firstNewSubscriberId, importEpoch, upload })
    if (startedAt !== null) {
      const waitedMs = startedAt.getTime() - entry.begins_at.getTime()
      metrics.stageEnded('wait', Math.max(0, waitedMs) / 1000)
      log.info({ import_id: entry._id }, 'import started')
    }
    return startedAt !== null
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
    this.#starting.set(entry._id, {
      organization_id: entry.organization_id,
      sourceType: entry.source.type,
      listId: entry.options.dry_run ? null : entry.mailing_list_id,
      ended,
    })
  }

  /** The file is kept before the import leaves `scheduled`, so nothing that is done to it from then on is seen. */
  async #pinAndStart(entry: DueImport): Promise<void> {
    const { uploads, log, onStarted } = this.#options
    const { _id: importId, source } = entry
    let upload: UploadDocument | undefined
    try {
      const pin = await this.#pinInTime(entry)
      if (pin !== hangs) upload = { pin, waiting: null }
    } catch (error) {
      // Another engine begins it.
      if (this.#stopping.signal.aborted || error instanceof FolderUnavailable) return
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

  /**
   * A pin that hangs must not hold the import's list: after a minute the import begins without one, and its step, which
   * other engines can take over, pins the file. Should the pin end after all, it is released.
   */
  async #pinInTime(entry: DueImport): Promise<UploadPin | null | typeof hangs> {
    const { uploads, stepBounds, log } = this.#options
    const { _id: importId, organization_id: organizationId, source } = entry
    const { signal } = this.#stopping
    this.#pins += 1
    const pinning = uploads
      .pin({ organizationId, name: source.filename, importId, signal })
      .finally(() => (this.#pins -= 1))
    const pin = await within(stepBounds.pinMs, pinning, hangs)
    if (pin !== hangs) return pin
    this.#hungPins += 1
    log.error(
      { import_id: importId, hung: this.#hungPins },
      `pinning the file ${JSON.stringify(source.filename)} has not ended within ${stepBounds.pinMs / 1000} s: a read or write of it hangs. Its import begins without the pin; does the file server of DATA_DIR answer? With ${maxPins} pins like it this engine starts no further import of an uploaded file`,
    )
    void pinning
      .then((late) => (late === null ? undefined : uploads.releasePin(late)))
      .catch(() => undefined)
      .finally(() => (this.#hungPins -= 1))
    return hangs
  }
}

const hangs = Symbol('hangs')

/** Imports that are started, counted by organization, and by whether they have a download before them. */
class StartedImports {
  readonly #counts = new Map<number, { download: number; other: number }>()

  constructor(
    working: readonly WorkingImport[],
    starting: Iterable<Pick<WaitingImport, 'organization_id' | 'sourceType'>>,
  ) {
    for (const { organization_id: id, state } of working)
      this.#countsOf(id)[state === 'downloading' ? 'download' : 'other'] += 1
    for (const entry of starting) this.add(entry)
  }

  count(organizationId: number): number {
    const { download, other } = this.#countsOf(organizationId)
    return download + other
  }

  /** The kinds of sources of which the organization may have one more started. */
  kindsWithFreeSlots(organizationId: number): SourceType[] {
    const counts = this.#countsOf(organizationId)
    return sourceTypes.filter((type) => counts[kindOf(type)] < maxStartedOfOrganization)
  }

  /** False when the organization has as many as it may. */
  add({ organization_id: id, sourceType }: Pick<WaitingImport, 'organization_id' | 'sourceType'>): boolean {
    const counts = this.#countsOf(id)
    if (counts[kindOf(sourceType)] >= maxStartedOfOrganization) return false
    counts[kindOf(sourceType)] += 1
    return true
  }

  #countsOf(organizationId: number): { download: number; other: number } {
    const counts = this.#counts.get(organizationId) ?? { download: 0, other: 0 }
    this.#counts.set(organizationId, counts)
    return counts
  }
}

const kindOf = (type: SourceType): 'download' | 'other' => (type === 'url' ? 'download' : 'other')
