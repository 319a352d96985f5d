import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import { hasEnded } from '../../shared/contract/import-state.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { ApiRefusal, ServiceUnreachable, type ApiClient } from './api-client.ts'
import { progressOn, type ProgressOptions } from './progress.ts'

interface WatchOptions extends ProgressOptions {
  signal: AbortSignal
  /** Called with every view, in place of a progress bar. */
  onView?: (view: ImportView) => void
  /** How long to wait for a service that can't be reached. */
  timeoutMs?: number
}

const reconnectMs = 1_000

/**
 * Follows an import to its end and shows its progress. It waits for a service that is restarted meanwhile. Throws the
 * service's refusals, and the signal's reason.
 */
export async function watchImport(client: ApiClient, id: number, options: WatchOptions): Promise<ImportView> {
  const progress = options.onView === undefined ? progressOn(options) : null
  try {
    const showMessage = (text: string) =>
      progress === null ? options.out.write(`${options.title}: ${text}\n`) : progress.showMessage(text)
    for await (const view of followViews(client, id, options, showMessage)) {
      progress?.show(view)
      options.onView?.(view)
      if (hasEnded(view.state)) return view
    }
    throw new Error('unreachable: there are views until the import has ended')
  } finally {
    progress?.end()
  }
}

async function* followViews(
  client: ApiClient,
  id: number,
  { signal, timeoutMs = 300_000 }: WatchOptions,
  onTrouble: (text: string) => void,
): AsyncGenerator<ImportView> {
  // Counted from when it was noticed, because a paused import may send no view for days.
  let unreachableSince: number | null = null
  const onReached = () => (unreachableSince = null)
  for (;;) {
    signal.throwIfAborted()
    try {
      yield* client.events<ImportView>(`/subscriber_imports/${id}/events`, signal, onReached)
    } catch (error) {
      signal.throwIfAborted()
      if (!isTemporary(error)) throw error
      const now = clock.monotonicMs()
      if (unreachableSince === null)
        onTrouble("the service can't be reached: waiting for it; the import is not affected")
      unreachableSince ??= now
      if (now - unreachableSince > timeoutMs) throw error
    }
    await sleep(reconnectMs, undefined, { signal })
  }
}

/** A service that starts or stops replies 503, and a proxy before it 502 or 504. */
export const isTemporary = (error: unknown): boolean =>
  error instanceof ServiceUnreachable ||
  (error instanceof ApiRefusal && (error.status >= 500 || error.status === 429))
