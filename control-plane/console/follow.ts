import { hasEnded } from '../../shared/contract/import-state.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { ApiError, getStream, pause } from './api.ts'

/** A comment comes every 15 s, so a connection that is silent for this long is dead. */
const silenceMs = 40_000
const reconnectMs = 2_000

/**
 * Follows an import by its event stream until it has ended. The stream is closed while the tab is hidden, and opened
 * again after a loss; its first event is the import as it is then.
 */
export async function followImport(
  id: number,
  { onView, signal }: { onView: (view: ImportView) => void; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    await untilVisible(signal)
    const closing = new AbortController()
    const close = () => closing.abort()
    const onHidden = () => document.hidden && close()
    signal.addEventListener('abort', close)
    document.addEventListener('visibilitychange', onHidden)
    try {
      const response = await getStream(`/subscriber_imports/${id}/events`, closing.signal)
      for await (const view of events(response, close)) {
        onView(view)
        if (hasEnded(view.state)) return
      }
    } catch (error) {
      if (error instanceof ApiError) throw error
    } finally {
      close()
      signal.removeEventListener('abort', close)
      document.removeEventListener('visibilitychange', onHidden)
    }
    await pause(reconnectMs, signal).catch(() => undefined)
  }
}

function untilVisible(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve()
  return new Promise((resolve) => {
    document.addEventListener('visibilitychange', () => resolve(), { once: true, signal })
    signal.addEventListener('abort', () => resolve())
  })
}

/** The views of a stream of server-sent events, whose events have one line of data each. */
async function* events(response: Response, close: () => void): AsyncGenerator<ImportView> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const timer = setTimeout(close, silenceMs)
    const { done, value } = await reader.read().finally(() => clearTimeout(timer))
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data:')) yield JSON.parse(line.slice(5)) as ImportView
  }
}
