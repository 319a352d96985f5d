import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Gauge, type Registry } from 'prom-client'
import { callersByKey, type Caller } from '../../../../shared/store/api-keys.ts'
import { clock } from '../../../../shared/runtime/clock.ts'
import { hasEnded } from '../../../../shared/contract/import-state.ts'
import { fullViews, namesOf, type NamedImport } from '../../../../shared/processes/import-views.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { Logger } from '../../../../shared/runtime/logger.ts'
import type { Collections } from '../../../../shared/contract/schemas/collections.ts'
import type { SecretBox } from '../../../../shared/store/secrets.ts'
import { importsAmong } from '../../../../shared/store/imports.ts'
import { readTogether } from '../../../../shared/store/read-together.ts'
import { listenForWakeUps } from '../../../../shared/store/wake-up.ts'
import { mayReadImports } from './service.ts'

interface ImportWatchOptions {
  collections: Collections
  secrets: SecretBox
  log: Logger
  registry: Registry
  /** Every stream ends when it is aborted. */
  stopping: AbortSignal
  bounds?: WatchBounds
}

export interface WatchBounds {
  /** Pause between two polls, and shortest time between two events of one stream but for its last. */
  everyMs: number
  /** After this time without an event a stream has a comment, so that proxies don't close it as idle. */
  commentMs: number
  /** Longest wait, after an import's end, for an engine to fix its counts. Then its stream ends without them. */
  countsTimeoutMs: number
  /** A client whose stream ended waits this long before it connects again. */
  retryMs: number
}

export const watchBounds: WatchBounds = {
  everyMs: 1_000,
  commentMs: 15_000,
  countsTimeoutMs: 3_000,
  retryMs: 3_000,
}

/** An import as it was at one moment. */
interface ImportSnapshot {
  document: Pick<ImportDocument, '_id' | 'organization_id' | 'mailing_list_id'>
  /** Rises with each read that this process starts. */
  order: number
  /** Digest of the view. */
  id: string
  /** The view as an event. All streams send these bytes. */
  event: Buffer
  hasEnded: boolean
  /** Nothing changes any more. */
  isLast: boolean
}

interface Watched {
  snapshot: ImportSnapshot
  watchers: Set<Watcher>
  /** When a snapshot first had an end state. */
  endedMs: number | null
}

/** One client's stream. */
class Watcher {
  readonly keyId: number
  hasEnded = false
  #wake: () => void = () => undefined

  constructor(keyId: number) {
    this.keyId = keyId
  }

  readonly wake = (): void => this.#wake()

  readonly end = (): void => {
    this.hasEnded = true
    this.#wake()
  }

  /** Until `wake`, for at most `ms`. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/**
 * Polls imports for the clients that follow them. One poll a second reads all followed imports and all API keys of their
 * clients: a handful of queries, whatever the number of clients. Nothing is queued for a slow client. When it has taken one
 * view it gets the latest. An event's id is a digest of its view, so any control plane knows it.
 *
 * A wake-up has an import read at once when its state has changed, so that its end is seen without a delay. Counts change
 * without one. A change stream would have the server read the heartbeat of every import, and counts are in the chunks.
 */
export class ImportWatch {
  readonly #options: ImportWatchOptions
  readonly #bounds: WatchBounds
  readonly #watched = new Map<number, Watched>()
  #order = 0
  #isPolling = false

  constructor(options: ImportWatchOptions) {
    this.#options = options
    this.#bounds = options.bounds ?? watchBounds
    options.stopping.addEventListener('abort', () => {
      for (const watcher of this.#watchers()) watcher.end()
    })
    void listenForWakeUps(
      options.collections,
      ['imports', 'finished'],
      (what) => void this.#readChanged(what?.import_id),
      options.stopping,
    )
    const count = () => [...this.#watchers()].length
    new Gauge({
      name: 'rollcall_event_streams',
      help: 'Streams of import events that clients have open',
      registers: [options.registry],
      collect() {
        this.set(count())
      },
    })
  }

  /** The import as it was when the document was read. */
  async snapshot({ document, names }: NamedImport): Promise<ImportSnapshot> {
    const [snapshot] = await this.#snapshots([document], this.#order, names)
    return snapshot!
  }

  /**
   * An import's events for one client, beginning with a first snapshot. They end with the import's last state, when the
   * caller loses access, when the client leaves, and when the process stops. `onClose` takes a listener for the client's
   * leaving.
   */
  async *events(
    first: ImportSnapshot,
    { keyId }: Caller,
    onClose: (end: () => void) => void,
  ): AsyncGenerator<Buffer, void> {
    const { everyMs, commentMs, retryMs } = this.#bounds
    const watcher = new Watcher(keyId)
    const watched = this.#subscribe(first, watcher)
    onClose(watcher.end)
    try {
      yield Buffer.concat([Buffer.from(`retry: ${retryMs}\n`), first.event])
      let sentId = first.id
      let sentMs = clock.monotonicMs()
      let lastBytesMs = sentMs
      while (!watcher.hasEnded && !this.#options.stopping.aborted) {
        const { snapshot } = watched
        const now = clock.monotonicMs()
        const isNews = snapshot.id !== sentId
        if (isNews && (snapshot.isLast || now - sentMs >= everyMs)) {
          yield snapshot.event
          sentId = snapshot.id
          lastBytesMs = sentMs = clock.monotonicMs()
        } else if (!isNews && snapshot.isLast) {
          return
        } else if (now - lastBytesMs >= commentMs) {
          yield Buffer.from(': nothing new\n\n')
          lastBytesMs = clock.monotonicMs()
        } else {
          await watcher.wait(isNews ? everyMs - (now - sentMs) : commentMs - (now - lastBytesMs))
        }
      }
    } finally {
      this.#unsubscribe(watched, watcher)
    }
  }

  #subscribe(first: ImportSnapshot, watcher: Watcher): Watched {
    const { _id: importId } = first.document
    const known = this.#watched.get(importId)
    const watched = known ?? { snapshot: first, watchers: new Set(), endedMs: null }
    this.#watched.set(importId, watched)
    // One that is watched may have been read later.
    if (known === undefined) this.#update(first)
    watched.watchers.add(watcher)
    if (!this.#isPolling) void this.#poll()
    return watched
  }

  #unsubscribe(watched: Watched, watcher: Watcher): void {
    watched.watchers.delete(watcher)
    if (watched.watchers.size === 0) this.#watched.delete(watched.snapshot.document._id)
  }

  *#watchers(): Iterable<Watcher> {
    for (const { watchers } of this.#watched.values()) yield* watchers
  }

  /** Runs while any client follows an import. A failure is logged once, not once for each poll. */
  async #poll(): Promise<void> {
    this.#isPolling = true
    let hasFailed = false
    while (this.#watched.size > 0 && !this.#options.stopping.aborted) {
      await sleep(this.#bounds.everyMs, undefined, { signal: this.#options.stopping }).catch(() => undefined)
      if (this.#watched.size === 0) break
      try {
        await Promise.all([this.#pollImports(), this.#pollKeys()])
        hasFailed = false
      } catch (error) {
        // The streams stay open: a client that connected again would not be served either.
        if (!hasFailed && !this.#options.stopping.aborted)
          this.#options.log.warn({ err: error }, 'the imports that clients follow could not be read')
        hasFailed = true
      }
    }
    this.#isPolling = false
  }

  async #readChanged(importId: number | undefined): Promise<void> {
    if (importId === undefined || !this.#watched.has(importId)) return
    // The next poll reads what this can't.
    for (const snapshot of await this.#read([importId]).catch(() => [])) this.#update(snapshot)
  }

  async #pollImports(): Promise<void> {
    for (const snapshot of await this.#read([...this.#watched.keys()])) this.#update(snapshot)
  }

  /** Ends the streams of keys that were revoked or have lost access. */
  async #pollKeys(): Promise<void> {
    const { collections, stopping } = this.#options
    const streams = [...this.#watched.values()].flatMap(({ snapshot, watchers }) =>
      [...watchers].map((watcher) => ({ watcher, organizationId: snapshot.document.organization_id })),
    )
    const keyIds = [...new Set(streams.map(({ watcher }) => watcher.keyId))]
    if (keyIds.length === 0) return
    const callers = await callersByKey(collections, keyIds, stopping)
    for (const { watcher, organizationId } of streams) {
      const caller = callers.get(watcher.keyId)
      if (caller === undefined || !mayReadImports(caller, organizationId)) watcher.end()
    }
  }

  /** The imports as they are now, without those that don't exist. */
  async #read(importIds: number[]): Promise<ImportSnapshot[]> {
    const order = (this.#order += 1)
    const { collections } = this.#options
    const known = importIds.flatMap((id) => this.#watched.get(id)?.snapshot.document ?? [])
    const { imports, ...names } = await readTogether({
      imports: importsAmong(collections, importIds),
      ...namesOf(collections, known),
    })
    return this.#snapshots(imports, order, names)
  }

  async #snapshots(
    documents: ImportDocument[],
    order: number,
    names: NamedImport['names'],
  ): Promise<ImportSnapshot[]> {
    const { collections, secrets } = this.#options
    const views = await fullViews(collections, documents, secrets, names)
    return documents.map((document, i) => {
      const { _id, organization_id, mailing_list_id } = document
      const data = JSON.stringify(views[i])
      const id = createHash('sha256').update(data).digest('base64url').slice(0, 16)
      return {
        document: { _id, organization_id, mailing_list_id },
        order,
        id,
        event: Buffer.from(`id: ${id}\nevent: import\ndata: ${data}\n\n`),
        hasEnded: hasEnded(document.state),
        isLast: hasEnded(document.state) && document.totals !== null,
      }
    })
  }

  /** Ignores a snapshot whose read started before that of the current one: it may be older. */
  #update(snapshot: ImportSnapshot): void {
    const watched = this.#watched.get(snapshot.document._id)
    if (watched === undefined || snapshot.order < watched.snapshot.order) return
    const now = clock.monotonicMs()
    if (snapshot.hasEnded) watched.endedMs ??= now
    const endedForMs = watched.endedMs === null ? 0 : now - watched.endedMs
    const isLast = snapshot.isLast || (snapshot.hasEnded && endedForMs >= this.#bounds.countsTimeoutMs)
    const isNews = snapshot.id !== watched.snapshot.id || isLast !== watched.snapshot.isLast
    watched.snapshot = { ...snapshot, isLast }
    if (isNews) for (const watcher of watched.watchers) watcher.wake()
  }
}
