import { setTimeout as sleep } from 'node:timers/promises'
import { errorMessage } from '../../shared/contract/errors.ts'
import { sourceTypes, type SourceType } from '../../shared/contract/schemas/import.ts'
import { peekNextId } from '../../shared/runtime/database.ts'
import { listLockedLists, startImport } from '../../shared/store/imports.ts'
import { beginImportEpoch } from '../../shared/store/subscriber-counts.ts'
import type { EngineParts } from '../engine-parts.ts'
import {
  listDueDryRuns,
  listFirstOfLists,
  listOrganizationsWithDryRuns,
  readDueImport,
  type DueImport,
  type WaitingImport,
  type WorkingImport,
} from '../store/import-queues.ts'
import { slots, type Kind } from './kinds.ts'
import { pollIntervalMs } from './poll-loop.ts'
import { Runner } from './runner.ts'

interface StartsOptions extends Pick<EngineParts, 'database' | 'uploads' | 'metrics' | 'log'> {
  /** Called when a start has ended: the import may have a step to claim. */
  onDrained: () => void
}

/**
 * An organization has at most this number of started imports that download, and this number of others. Further
 * ones wait as `scheduled`, so that a poll reads few imports however many are due at one moment.
 */
const maxStartedOfOrganization = 32
/** Organizations whose dry runs are read in one poll, and how many of each. */
const maxDryRunReads = 16

/**
 * Starts the imports that are due and whose list is free: one at a time on a list, and dry runs beside any. An uploaded
 * file is pinned before the start.
 */
export class Starts {
  readonly #options: StartsOptions
  readonly #runner: Runner<WaitingImport, DueImport>

  constructor(options: StartsOptions) {
    this.#options = options
    const kind: Kind<WaitingImport, DueImport> = {
      name: 'the start of an import',
      slots: slots.start,
      keyOf: ({ _id }) => _id,
      keyName: 'import_id',
      isSingle: true,
      mayBegin: () => true,
      claim: ({ _id }) => readDueImport(options.database.collections, _id),
      run: (entry, { signal }) => this.#run(entry, signal),
    }
    this.#runner = new Runner(kind, options)
  }

  /** Starts these imports while there are slots. */
  async fill(startable: readonly WaitingImport[]): Promise<void> {
    this.#runner.offer(startable)
    await this.#runner.fill()
  }

  /** Resolves when all starts in progress have ended. */
  stop(): Promise<void> {
    return this.#runner.stop()
  }

  /** The imports that may be started now, in the order of `begins_at` and id. `working` are those that are started. */
  async listStartable(working: readonly WorkingImport[]): Promise<WaitingImport[]> {
    const { collections } = this.#options.database
    const starting = this.#runner.running.map(({ queue }) => queue)
    const started = new StartedCounts([...working.map(kindOfWorking), ...starting.map(kindOfWaiting)])
    const [locked, firstOfLists, withDryRuns] = await Promise.all([
      listLockedLists(collections),
      listFirstOfLists(collections),
      listOrganizationsWithDryRuns(collections),
    ])
    const dryRuns = await Promise.all(
      withDryRuns
        .filter((organizationId) => started.freeSourceTypes(organizationId).length > 0)
        .sort((a, b) => started.all(a) - started.all(b))
        .slice(0, maxDryRunReads)
        .map((organizationId) =>
          listDueDryRuns(collections, organizationId, {
            sourceTypes: started.freeSourceTypes(organizationId),
            // The first ones include those whose start is in progress.
            limit: slots.start.atOnce + starting.length,
          }),
        ),
    )
    const taken = new Set([...locked, ...starting.map(({ listId }) => listId)])
    const startingIds = new Set(starting.map(({ _id }) => _id))
    return [...firstOfLists.filter(({ listId }) => !taken.has(listId)), ...dryRuns.flat()]
      .filter(({ _id }) => !startingIds.has(_id))
      .sort((a, b) => a.begins_at.getTime() - b.begins_at.getTime() || a._id - b._id)
      .filter((entry) => started.addIfFree(kindOfWaiting(entry)))
  }

  /** A start that failed keeps its slot for a while, so that it isn't tried again at once. */
  async #run(entry: DueImport, signal: AbortSignal): Promise<void> {
    try {
      if (entry.source.type === 'upload_directory') await this.#pinAndStart(entry)
      else await this.#start(entry)
    } catch (error) {
      if (signal.aborted) return
      this.#options.log.warn(
        { import_id: entry._id },
        `an import can't be started, trying again: ${errorMessage(error)}`,
      )
      await sleep(pollIntervalMs, undefined, { signal }).catch(() => undefined)
    }
  }

  async #start(entry: DueImport, pinned?: string): Promise<void> {
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
    if (startedAt === null) return
    const waitedMs = startedAt.getTime() - entry.begins_at.getTime()
    metrics.stageEnded('wait', Math.max(0, waitedMs) / 1000)
    log.info({ import_id: entry._id }, 'import started')
  }

  /** Pins the file before the import leaves `scheduled`, so that later changes of its name don't reach the import. */
  async #pinAndStart(entry: DueImport): Promise<void> {
    const { _id: importId, organization_id: organizationId, source } = entry
    // Without a file the step fails, and says so. Where another engine starts the import, it has the same pin.
    const pin = await this.#options.uploads.pin({ organizationId, name: source.filename, importId })
    await this.#start(entry, pin?.blob)
  }
}

interface StartedImport {
  organization_id: number
  kind: 'download' | 'other'
}

const kindOf = (type: SourceType) => (type === 'url' ? 'download' : 'other')
const kindOfWaiting = ({ organization_id, sourceType }: WaitingImport): StartedImport => ({
  organization_id,
  kind: kindOf(sourceType),
})
const kindOfWorking = ({ organization_id, state }: WorkingImport): StartedImport => ({
  organization_id,
  kind: state === 'downloading' ? 'download' : 'other',
})

/** Counts started imports, by organization and by whether they still have to download their file. */
class StartedCounts {
  readonly #counts = { download: new Map<number, number>(), other: new Map<number, number>() }

  constructor(started: readonly StartedImport[]) {
    for (const { organization_id: id, kind } of started) this.#counts[kind].set(id, this.#of(id, kind) + 1)
  }

  all(organizationId: number): number {
    return this.#of(organizationId, 'download') + this.#of(organizationId, 'other')
  }

  /** The source types of which one more import of the organization may be started. */
  freeSourceTypes(organizationId: number): SourceType[] {
    return sourceTypes.filter((type) => this.#of(organizationId, kindOf(type)) < maxStartedOfOrganization)
  }

  /** Counts one more import. False, and not counted, when the organization has reached its limit. */
  addIfFree({ organization_id: id, kind }: StartedImport): boolean {
    const count = this.#of(id, kind)
    if (count < maxStartedOfOrganization) this.#counts[kind].set(id, count + 1)
    return count < maxStartedOfOrganization
  }

  #of(organizationId: number, kind: StartedImport['kind']): number {
    return this.#counts[kind].get(organizationId) ?? 0
  }
}
