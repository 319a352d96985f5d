import { createHash } from 'node:crypto'
import { Gauge, type Registry } from 'prom-client'
import { callersByKey, type Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { hasEnded } from '../../../shared/contract/import-state.ts'
import { fullViews } from '../../../shared/store/import-views.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { SecretBox } from '../../../shared/runtime/secret-box.ts'
import { singleFlight } from '../../api/single-flight.ts'

export interface ImportWatchOptions {
  collections: Collections
  secrets: SecretBox
  log: Logger
  registry: Registry
  /** Every stream ends when it is aborted. */
  stopping: AbortSignal
  /** Whether a caller may still see an organization's imports. */
  maySee: (caller: Caller, organizationId: number) => boolean
  bounds?: WatchBounds
}

export interface WatchBounds {
  /** Between two looks, and at least between two events of one stream. */
  everyMs: number
  /** Without an event, after which a stream carries a comment: so that nobody between takes it for dead. */
  commentMs: number
  /** After its end, for which an import's counts may still move; then nobody waits for an engine to fix them. */
  settleMs: number
  /** What a client is told to wait for before it comes again. */
  retryMs: number
}

export const watchBounds: WatchBounds = { everyMs: 1_000, commentMs: 15_000, settleMs: 3_000, retryMs: 3_000 }

/** An import as it was at one moment. */
export interface ImportSnapshot {
  importId: number
  organizationId: number
  /** Sights of one process, in the order in which they were begun. */
  order: number
  /** Digest of the view. */
  id: string
  /** The view as an event; all streams send these bytes. */
  event: Buffer
  hasEnded: boolean
  /** Nothing will change any more. */
  isLast: boolean
}

interface Watched {
  snapshot: ImportSnapshot
  watchers: Set<Watcher>
  /** When it was first seen to have ended. */
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

  /** Until it is woken, or for so long. */
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
 * Lets any number of clients follow imports. Once a second one look is taken at all imports that somebody follows, and
 * at all their keys: a handful of queries, whatever the number of clients. A client that reads slowly is sent the
 * latest view when it has taken the one before, so nothing is queued for it.
 */
export class ImportWatch {
  readonly #options: ImportWatchOptions
  readonly #bounds: WatchBounds
  readonly #watched = new Map<number, Watched>()
  #order = 0
  #isPolling = false
  readonly #pause = new Watcher(0)

  constructor(options: ImportWatchOptions) {
    this.#options = options
    this.#bounds = options.bounds ?? watchBounds
    options.stopping.addEventListener('abort', () => {
      for (const watcher of this.#watchers()) watcher.end()
      this.#pause.wake()
    })
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

  /** The import as it is now; who asks at the same moment shares the look. */
  see(importId: number): Promise<ImportSnapshot | null> {
    return readSnapshots(this, importId)
  }

  /**
   * The events of an import as a client is sent them, from a first snapshot on, until its last state, the end of the
   * caller's access, the client's, or the process's. `onClose` is told what to call when the client is gone.
   */
  async *events(
    first: ImportSnapshot,
    { keyId }: Caller,
    onClose: (end: () => void) => void,
  ): AsyncGenerator<Buffer, void> {
    const { everyMs, commentMs, retryMs } = this.#bounds
    const watcher = new Watcher(keyId)
    const watched = this.#join(first, watcher)
    onClose(watcher.end)
    try {
      yield Buffer.concat([Buffer.from(`retry: ${retryMs}\n`), first.event])
      let sentId = first.id
      let sentMs = clock.monotonicMs()
      let quietSinceMs = sentMs
      while (!watcher.hasEnded && !this.#options.stopping.aborted) {
        const { snapshot } = watched
        const now = clock.monotonicMs()
        const isNews = snapshot.id !== sentId
        if (isNews && now - sentMs >= everyMs) {
          yield snapshot.event
          sentId = snapshot.id
          quietSinceMs = sentMs = clock.monotonicMs()
        } else if (!isNews && snapshot.isLast) {
          return
        } else if (now - quietSinceMs >= commentMs) {
          yield Buffer.from(': nothing new\n\n')
          quietSinceMs = clock.monotonicMs()
        } else {
          await watcher.wait(isNews ? everyMs - (now - sentMs) : commentMs - (now - quietSinceMs))
        }
      }
    } finally {
      this.#leave(watched, watcher)
    }
  }

  #join(first: ImportSnapshot, watcher: Watcher): Watched {
    const { importId } = first
    const watched = this.#watched.get(importId) ?? { snapshot: first, watchers: new Set(), endedMs: null }
    this.#watched.set(importId, watched)
    this.#note(first)
    watched.watchers.add(watcher)
    if (!this.#isPolling) void this.#lookOn()
    return watched
  }

  #leave(watched: Watched, watcher: Watcher): void {
    watched.watchers.delete(watcher)
    if (watched.watchers.size === 0) this.#watched.delete(watched.snapshot.importId)
  }

  *#watchers(): Iterable<Watcher> {
    for (const { watchers } of this.#watched.values()) yield* watchers
  }

  /** Looks every second, as long as somebody watches. */
  async #lookOn(): Promise<void> {
    this.#isPolling = true
    let isAnswered = true
    while (this.#watched.size > 0 && !this.#options.stopping.aborted) {
      await this.#pause.wait(this.#bounds.everyMs)
      try {
        await Promise.all([this.#pollImports(), this.#pollKeys()])
        isAnswered = true
      } catch (error) {
        // The streams go on: their clients would find nobody to answer them either.
        if (isAnswered && !this.#options.stopping.aborted)
          this.#options.log.warn({ err: error }, 'the imports that clients follow could not be looked at')
        isAnswered = false
      }
    }
    this.#isPolling = false
  }

  async #pollImports(): Promise<void> {
    for (const snapshot of await this.read([...this.#watched.keys()])) this.#note(snapshot)
  }

  /** Ends the streams of keys that were withdrawn, or may see the import no longer. */
  async #pollKeys(): Promise<void> {
    const { collections, stopping, maySee } = this.#options
    const looked = [...this.#watched.values()].flatMap(({ snapshot, watchers }) =>
      [...watchers].map((watcher) => ({ watcher, organizationId: snapshot.organizationId })),
    )
    const keyIds = [...new Set(looked.map(({ watcher }) => watcher.keyId))]
    if (keyIds.length === 0) return
    const callers = await callersByKey(collections, keyIds, stopping)
    for (const { watcher, organizationId } of looked) {
      const caller = callers.get(watcher.keyId)
      if (caller === undefined || !maySee(caller, organizationId)) watcher.end()
    }
  }

  /** The imports as they are now; those that don't exist are left out. */
  async read(importIds: number[]): Promise<ImportSnapshot[]> {
    const { collections, secrets } = this.#options
    const order = (this.#order += 1)
    // What an import works by may be large, and isn't shown.
    const documents: ImportDocument[] = await collections.imports
      .find({ _id: { $in: importIds } }, { projection: { plan: 0, field_ids: 0 } })
      .toArray()
    const views = await fullViews(collections, documents, secrets)
    return documents.map((document, i) => {
      const data = JSON.stringify(views[i])
      const id = createHash('sha256').update(data).digest('base64url').slice(0, 16)
      return {
        importId: document._id,
        organizationId: document.organization_id,
        order,
        id,
        event: Buffer.from(`id: ${id}\nevent: import\ndata: ${data}\n\n`),
        hasEnded: hasEnded(document.state),
        isLast: hasEnded(document.state) && document.totals !== null,
      }
    })
  }

  /** What was begun earlier may come later: then it isn't news. */
  #note(snapshot: ImportSnapshot): void {
    const watched = this.#watched.get(snapshot.importId)
    if (watched === undefined || snapshot.order < watched.snapshot.order) return
    const now = clock.monotonicMs()
    if (snapshot.hasEnded) watched.endedMs ??= now
    const isLast = snapshot.isLast || (snapshot.hasEnded && now - watched.endedMs! >= this.#bounds.settleMs)
    const isNews = snapshot.id !== watched.snapshot.id || isLast !== watched.snapshot.isLast
    watched.snapshot = { ...snapshot, isLast }
    if (isNews) for (const watcher of watched.watchers) watcher.wake()
  }
}

const readSnapshots = singleFlight(
  async (watch: ImportWatch, importId: number) => (await watch.read([importId]))[0] ?? null,
)
