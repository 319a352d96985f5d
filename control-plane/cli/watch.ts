import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import { ApiRefusal, importEnded, ServiceUnreachable, type ApiClient, type ImportView } from './api-client.ts'
import { progressOn, type ProgressOptions } from './progress.ts'

export interface WatchOptions extends ProgressOptions {
  signal: AbortSignal
  /** Is shown every view instead of a progress bar. */
  onView?: (view: ImportView) => void
  /** How long a service that can't be reached is waited for. */
  timeoutMs?: number
}

const reconnectMs = 1_000
/** Where the service has no events. */
const askEveryMs = 1_000

/**
 * Follows an import to its end and shows how it goes on; a service that is restarted meanwhile is waited for. Throws what
 * the service refuses, and the signal's reason.
 */
export async function watchImport(client: ApiClient, id: number, options: WatchOptions): Promise<ImportView> {
  const progress = options.onView === undefined ? progressOn(options) : null
  try {
    const note = (text: string) =>
      progress === null ? options.out.write(`${options.title}: ${text}\n`) : progress.note(text)
    for await (const view of viewsOf(client, id, options, note)) {
      progress?.show(view)
      options.onView?.(view)
      if (importEnded(view)) return view
    }
    throw new Error('unreachable: views go on until the import has ended')
  } finally {
    progress?.end()
  }
}

async function* viewsOf(
  client: ApiClient,
  id: number,
  { signal, timeoutMs = 300_000 }: WatchOptions,
  onTrouble: (text: string) => void,
): AsyncGenerator<ImportView> {
  const path = `/subscriber_imports/${id}`
  let hasEvents = true
  // Since it was found out: an import at rest may have been silent for days.
  let awaySince: number | null = null
  const isThere = () => (awaySince = null)
  for (;;) {
    signal.throwIfAborted()
    try {
      if (hasEvents) {
        yield* client.events<ImportView>(`${path}/events`, signal, isThere)
      } else {
        yield await client.get<ImportView>(path)
        isThere()
        await sleep(askEveryMs, undefined, { signal })
        continue
      }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ApiRefusal && error.status === 404 && hasEvents) {
        hasEvents = false
        continue
      }
      if (!isPassing(error)) throw error
      const now = clock.monotonicMs()
      if (awaySince === null) onTrouble('the service is away: waiting for it, the import is safe')
      awaySince ??= now
      if (now - awaySince > timeoutMs) throw error
    }
    await sleep(reconnectMs, undefined, { signal })
  }
}

/** A service that starts or stops says 503, what stands before it 502 or 504. */
const isPassing = (error: unknown): boolean =>
  error instanceof ServiceUnreachable ||
  (error instanceof ApiRefusal && (error.status >= 500 || error.status === 429))
