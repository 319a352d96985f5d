import { peekNextId } from '../../shared/runtime/database.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { sourceTypes, type SourceType } from '../../shared/contract/schemas/import.ts'
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
import { sortRoundRobin } from './organization-rounds.ts'
import type { StepContext } from './step.ts'

interface ImportStarterOptions extends Pick<StepContext, 'database' | 'uploads' | 'metrics' | 'log'> {
  /** Called when an import started after `startDue` had resolved. */
  onStarted: () => void
}

/** An import whose start is in progress. */
interface StartingImport extends Pick<WaitingImport, 'organization_id' | 'sourceType' | 'listId'> {
  ended: Promise<void>
}

/** Imports started in one poll, because steps and chunks of others are claimed between two polls. */
const maxStartsPerPoll = 16
/**
 * An organization has at most this number of started imports that download, and this number of others. Further
 * ones wait as `scheduled`, so that a poll reads few imports however many are due at one moment.
 */
const maxStartedOfOrganization = 32
/** Organizations whose dry runs are read in one poll. */
const maxDryRunReads = 16

/**
 * Starts the imports that are due and whose list is free: one at a time on a list, and dry runs beside any.
 * Organizations are served round-robin: the oldest import of each, then the second of each. An uploaded file is pinned
 * before the start.
 */
export class ImportStarter {
  readonly #options: ImportStarterOptions
  /** Starts in progress, with the list that each import will lock. */
  readonly #starting = new Map<number, StartingImport>()

  constructor(options: ImportStarterOptions) {
    this.#options = options
  }

  /**
   * Starts up to `maxStartsPerPoll` imports. `working` are those that are started already. Resolves to the number of
   * started ones, and whether others are left for the next poll.
   */
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
      // It was cancelled, or another engine has started it.
      if (entry === undefined) continue
      if (entry.source.type === 'upload_directory') this.#startPinned(entry)
      else if (await this.#startNow(entry)) started += 1
    }
    return { started, isMoreDue: due.length > batch.length }
  }

  /** How many imports `startDue` would start. */
  async countDue(working: readonly WorkingImport[]): Promise<number> {
    return (await this.#listStartable(working)).length
  }

  /** The imports that may be started now, in this order. */
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
        .filter((organizationId) => started.sourceTypesWithFreeSlots(organizationId).length > 0)
        .sort((a, b) => started.count(a) - started.count(b))
        .slice(0, maxDryRunReads)
        .map((organizationId) =>
          listDueDryRuns(collections, organizationId, {
            sourceTypes: started.sourceTypesWithFreeSlots(organizationId),
            // The first ones include those whose start is in progress.
            limit: maxStartsPerPoll + this.#starting.size,
          }),
        ),
    )
    const taken = new Set([...locked, ...[...this.#starting.values()].map(({ listId }) => listId)])
    const waiting = [...firstOfLists.filter(({ listId }) => !taken.has(listId)), ...dryRuns.flat()]
      .filter(({ _id }) => !this.#starting.has(_id))
      .sort((a, b) => a.begins_at.getTime() - b.begins_at.getTime() || a._id - b._id)
    return sortRoundRobin(waiting, (organizationId) => started.count(organizationId)).filter((entry) =>
      started.add(entry),
    )
  }

  /** Resolves when all starts in progress have ended. */
  async stop(): Promise<void> {
    await Promise.all([...this.#starting.values()].map((start) => start.ended))
  }

  async #startNow(entry: DueImport, pinned?: string): Promise<boolean> {
    const { database, metrics, log } = this.#options
    const { collections } = database
    // Raised first: deactivation must know which subscribers are older than the import, and ids don't tell (they are
    // allocated up to 20 s before the insertion commits).
    const importEpoch = entry.options.deactivate_subscribers_not_in_import
      ? await beginImportEpoch(collections, {
          organizationId: entry.organization_id,
          listId: entry.mailing_list_id,
        })
      : undefined
    const firstNewSubscriberId = await peekNextId(collections, 'subscriber')
    const startedAt = await startImport(collections, entry._id, { firstNewSubscriberId, importEpoch, pinned })
    if (startedAt !== null) {
      const waitedMs = startedAt.getTime() - entry.begins_at.getTime()
      metrics.stageEnded('wait', Math.max(0, waitedMs) / 1000)
      log.info({ import_id: entry._id }, 'import started')
    }
    return startedAt !== null
  }

  /** Runs beside the poll, so that other imports needn't wait for the pin. */
  #startPinned(entry: DueImport): void {
    const ended = this.#pinAndStart(entry)
      .catch((error: unknown) => {
        this.#options.log.warn(
          { import_id: entry._id },
          `an import can't be started, trying again: ${errorMessage(error)}`,
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

  /** Pins the file before the import leaves `scheduled`, so that later changes of its name don't reach the import. */
  async #pinAndStart(entry: DueImport): Promise<void> {
    const { uploads, onStarted } = this.#options
    const { _id: importId, organization_id: organizationId, source } = entry
    // Without a file the step fails, and says so. Where another engine starts the import, it has the same pin.
    const pin = await uploads.pin({ organizationId, name: source.filename, importId })
    if (await this.#startNow(entry, pin?.blob)) onStarted()
  }
}

/** Counts of started imports, by organization and by whether they still have to download their file. */
class StartedImports {
  readonly #counts = new Map<number, { download: number; other: number }>()

  constructor(
    working: readonly WorkingImport[],
    starting: Iterable<Pick<WaitingImport, 'organization_id' | 'sourceType'>>,
  ) {
    for (const { organization_id: id, state } of working)
      this.#organizationCounts(id)[state === 'downloading' ? 'download' : 'other'] += 1
    for (const entry of starting) this.add(entry)
  }

  count(organizationId: number): number {
    const { download, other } = this.#organizationCounts(organizationId)
    return download + other
  }

  /** The source types of which one more import of the organization may be started. */
  sourceTypesWithFreeSlots(organizationId: number): SourceType[] {
    const counts = this.#organizationCounts(organizationId)
    return sourceTypes.filter((type) => counts[stepKind(type)] < maxStartedOfOrganization)
  }

  /** Counts one more import. False, and not counted, when the organization has reached its limit. */
  add({ organization_id: id, sourceType }: Pick<WaitingImport, 'organization_id' | 'sourceType'>): boolean {
    const counts = this.#organizationCounts(id)
    if (counts[stepKind(sourceType)] >= maxStartedOfOrganization) return false
    counts[stepKind(sourceType)] += 1
    return true
  }

  #organizationCounts(organizationId: number): { download: number; other: number } {
    const counts = this.#counts.get(organizationId) ?? { download: 0, other: 0 }
    this.#counts.set(organizationId, counts)
    return counts
  }
}

const stepKind = (type: SourceType): 'download' | 'other' => (type === 'url' ? 'download' : 'other')
