import { sourceTypes, type ImportDocument, type SourceType } from '../../shared/contract/schemas/import.ts'
import { logImportState } from '../../shared/processes/import-log.ts'
import { peekNextId } from '../../shared/runtime/database.ts'
import { listLockingImports, listNotFinalizedAmong, startImport } from '../../shared/store/imports.ts'
import { beginImportEpoch } from '../../shared/store/subscriber-counts.ts'
import type { Claim } from '../../shared/store/work-leases.ts'
import {
  listDueDryRuns,
  listFirstOfLists,
  listOrganizationsWithDryRuns,
  readFirstOfList,
  type WaitingImport,
  type WorkingImport,
} from '../store/import-queues.ts'
import { slots, type Kind } from './kinds.ts'
import { stepWork, type StepKindOptions } from './steps.ts'

/** Where imports wait for their start: on a list, or as dry runs of an organization. */
export interface StartQueue {
  organization_id: number
  /** Null for dry runs, which don't lock their list. */
  list_id: number | null
}

/**
 * An organization has at most about this number of started imports that download, and of others. Further ones wait as
 * `scheduled`, so that a poll reads few imports however many are due at one moment.
 */
const maxStartedOfOrganization = 32
/** Organizations whose dry runs are started after one poll. */
const maxDryRunQueues = 16
/** Other engines may be starting the first dry runs, so a claim tries some more. */
const dryRunTries = 4

interface StartsOptions extends StepKindOptions {
  /** Called when an import has started to download, which is work of another kind. */
  onDownload: () => void
}

/**
 * Starts the imports that are due and whose list is free: one at a time on a list, and dry runs beside any. The write that
 * starts an import claims its first step too, and the step runs at once. A download has slots of its own: here it is only
 * started.
 */
export class Starts {
  readonly #options: StartsOptions
  #started = new StartedCounts([])
  /** Imports that were started as the only ones that waited on their list. */
  readonly #lastOfLists = new WeakSet<ImportDocument>()
  /** Whether the last poll left out queues with due imports. */
  hasMore = false
  /** Whether the last poll found due imports, without those behind a paused import: its end or unpause wakes the engine. */
  hasDue = false

  constructor(options: StartsOptions) {
    this.#options = options
  }

  get kind(): Kind<StartQueue, ImportDocument> {
    return {
      ...stepWork(this.#options),
      name: 'the start of an import',
      slots: slots.start,
      keyOf: ({ organization_id, list_id }) =>
        list_id === null ? `dry runs of ${organization_id}` : `list ${list_id}`,
      keyName: 'queue',
      open: (queues, running) => {
        const lists = new Set(running.map(({ list_id }) => list_id))
        return queues.filter(({ list_id }) => list_id === null || !lists.has(list_id))
      },
      isLast: (started) => this.#lastOfLists.has(started),
      claim: (queue, token) => this.#claim(queue, { engineId: this.#options.engineId, token }),
    }
  }

  /** Where imports may be started now, by the start of the first one. `working` are the imports that are started. */
  async listQueues(working: readonly WorkingImport[]): Promise<StartQueue[]> {
    const { collections } = this.#options.database
    this.#started = new StartedCounts(working)
    const [firstOfLists, withDryRuns] = await Promise.all([
      listFirstOfLists(collections),
      listOrganizationsWithDryRuns(collections),
    ])
    const locking = firstOfLists.length > 0 ? await listLockingImports(collections) : []
    const listsOf = (imports: typeof locking) =>
      new Set(imports.map(({ mailing_list_id }) => mailing_list_id))
    const taken = listsOf(locking)
    const takenByPaused = listsOf(locking.filter(({ state }) => state === 'paused'))
    this.hasDue = withDryRuns.length > 0 || firstOfLists.some(({ list_id }) => !takenByPaused.has(list_id))
    const lists = firstOfLists
      .filter(({ list_id }) => !taken.has(list_id))
      .sort((a, b) => a.begins_at.getTime() - b.begins_at.getTime() || a._id - b._id)
    const open = lists.filter((first) =>
      this.#started.addIfFree(first.organization_id, kindOf(first.source_type)),
    )
    const dryRuns = withDryRuns
      .filter((id) => this.#started.freeSourceTypes(id).length > 0)
      .sort((a, b) => this.#started.all(a) - this.#started.all(b))
      .slice(0, maxDryRunQueues)
      .map((organization_id) => ({ organization_id, list_id: null }))
    this.hasMore = open.length < lists.length || dryRuns.length < withDryRuns.length
    return [...open, ...dryRuns]
  }

  /** Whether an import of the queue may be started, by what was started at the last poll. */
  hasRoom({ organization_id: id }: StartQueue): boolean {
    return this.#started.freeSourceTypes(id).length > 0
  }

  async #claim(queue: StartQueue, claim: Claim): Promise<ImportDocument | null> {
    const { database, staging, onDownload } = this.#options
    if ((await staging.spaceProblem()) !== null) return null
    const { collections } = database
    const { organization_id: organizationId, list_id: listId } = queue
    const waiting =
      listId === null
        ? await listDueDryRuns(collections, organizationId, {
            sourceTypes: this.#started.freeSourceTypes(organizationId),
            limit: dryRunTries,
          })
        : await readFirstOfList(collections, listId)
    for (const due of listId === null ? waiting : waiting.slice(0, 1).filter(({ is_due }) => is_due)) {
      const isDownload = kindOf(due.source.type) === 'download'
      const started = await this.#start(due, isDownload ? null : claim)
      if (started === null) continue
      if (isDownload) {
        onDownload()
        continue
      }
      if (listId !== null && waiting.length === 1) this.#lastOfLists.add(started)
      return started
    }
    return null
  }

  /** Null when another engine has started the import, or its list is locked. */
  async #start(due: WaitingImport, claim: Claim | null): Promise<ImportDocument | null> {
    const { database, uploads, metrics, log } = this.#options
    const { collections } = database
    const { _id: importId, organization_id: organizationId, mailing_list_id: listId, source } = due
    // Pinned before the import leaves `scheduled`, so that later changes of the file's name don't reach the import.
    // Without a file the step fails, and says so. Where another engine starts the import, it has the same pin.
    const pin =
      source.type === 'upload_directory'
        ? await uploads.pin({ organizationId, name: source.filename, importId })
        : null
    // Raised first: deactivation must know which subscribers are older than the import, and ids don't tell (they are
    // allocated up to 20 s before the insertion commits).
    const isDeactivating = due.options.deactivate_subscribers_not_in_import
    const epoch = isDeactivating ? await beginImportEpoch(collections, { organizationId, listId }) : undefined
    const started = await startImport(collections, importId, {
      ...(claim === null ? {} : { claim }),
      ...(pin === null ? {} : { pinned: pin.blob }),
      ...(epoch === undefined ? {} : { import_epoch: epoch }),
      ...(isDeactivating ? { first_new_subscriber_id: await peekNextId(collections, 'subscriber') } : {}),
    })
    if (started === null) {
      // The engine that started it may have finalized it before this pin, which nothing else would end soon.
      const isFinalized = pin !== null && (await listNotFinalizedAmong(collections, [importId])).length === 0
      if (isFinalized) await uploads.unpin(importId)
      return null
    }
    const waitedMs = started.started_at!.getTime() - due.begins_at.getTime()
    metrics.stageEnded('wait', Math.max(0, waitedMs) / 1000)
    logImportState(log.child({ import_id: importId }), started, {
      from: 'scheduled',
      to: started.state,
      by: { by: 'service' },
    })
    return started
  }
}

type StartedKind = 'download' | 'other'

const kindOf = (type: SourceType): StartedKind => (type === 'url' ? 'download' : 'other')

/** Counts started imports, by organization and by whether they still have to download their file. */
class StartedCounts {
  readonly #counts = { download: new Map<number, number>(), other: new Map<number, number>() }

  constructor(working: readonly WorkingImport[]) {
    for (const { organization_id: id, state } of working)
      this.#add(id, state === 'downloading' ? 'download' : 'other')
  }

  all(organizationId: number): number {
    return this.#of(organizationId, 'download') + this.#of(organizationId, 'other')
  }

  /** The source types of which one more import of the organization may be started. */
  freeSourceTypes(organizationId: number): SourceType[] {
    return sourceTypes.filter((type) => this.#of(organizationId, kindOf(type)) < maxStartedOfOrganization)
  }

  /** Counts one more import. False, and not counted, when the organization has reached its limit. */
  addIfFree(organizationId: number, kind: StartedKind): boolean {
    if (this.#of(organizationId, kind) >= maxStartedOfOrganization) return false
    this.#add(organizationId, kind)
    return true
  }

  #add(organizationId: number, kind: StartedKind): void {
    this.#counts[kind].set(organizationId, this.#of(organizationId, kind) + 1)
  }

  #of(organizationId: number, kind: StartedKind): number {
    return this.#counts[kind].get(organizationId) ?? 0
  }
}
