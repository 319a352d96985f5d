import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { ServiceStateView } from '../resources/service-state/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, isAbort, useLoad, usePolling } from './api.ts'
import { bytes, duration, exactTime, sentence } from './format.ts'
import { hasEnded } from './import-state.ts'
import { isAdmin } from './session.ts'

const pollMs = 5_000

/** Why an import doesn't move: what it waits for, who paused it, and what is wrong with the service. */
export function Standstill({ view }: { view: ImportView }): VNode | null {
  const { state, id } = view
  const isWatched = !hasEnded(state)
  const service = useLoad<ServiceStateView | null>(
    async (signal) => (isWatched ? get<ServiceStateView>('/service_state', signal) : null),
    [isWatched],
  )
  usePolling(service, pollMs)
  const { data: pausedBy } = useLoad(
    (signal) => (state === 'paused' && isAdmin() ? whoPaused(id, signal) : Promise.resolve(null)),
    [state],
  )
  if (!isWatched) return null
  const reasons = [
    ...waits(view, pausedBy),
    ...(service.data?.problems ?? []).map((text) => `${sentence(text)}.`),
  ]
  const isToBegin = state === 'scheduled' && Date.parse(view.begins_at) > Date.now()
  const last = isToBegin || state === 'paused' ? null : (service.data?.last_progress_at ?? null)
  if (reasons.length === 0 && state === 'importing') return null
  return html`<div class="notice" role="status" aria-label="Why nothing moves">
    ${reasons.map((text) => html`<p key=${text}>${text}</p>`)}
    ${
      view.waiting_for_import_id !== null &&
      html`<p>
        It waits for <a href=${`/console/imports/${view.waiting_for_import_id}`}>import ${view.waiting_for_import_id}</a>,
        because one import at a time works on a list.
      </p>`
    }
    ${last !== null && html`<p class="hint">The last progress of any import was ${ago(last)} ago.</p>`}
  </div>`
}

const ago = (instant: string): string => duration(Math.max(0, (Date.now() - Date.parse(instant)) / 1000))

function waits(view: ImportView, pausedBy: string | null): string[] {
  const { state, begins_at: beginsAt, download } = view
  if (state === 'paused') return [pausedBy ?? 'It is paused, and goes on when it is resumed.']
  if (state === 'scheduled' && Date.parse(beginsAt) > Date.now())
    return [`It begins at ${exactTime(beginsAt)}.`]
  if (state === 'scheduled' && view.waiting_for_import_id === null) return ['It waits for an engine.']
  if (state !== 'downloading' || download === null) return []
  const { attempt, next_attempt_at: next, bytes_received: received, bytes_expected: expected } = download
  if (next !== null)
    return [`Try ${attempt - 1} of the download failed; the next one is at ${exactTime(next)}.`]
  return [
    `${bytes(received)}${expected === null ? '' : ` of ${bytes(expected)}`} are downloaded, try ${attempt}.`,
  ]
}

interface PauseEvent {
  occurred_at: string
  api_key_name: string | null
  user_name: string | null
}

/** The audit trail knows who paused it; null for whom it isn't shown. */
async function whoPaused(id: number, signal: AbortSignal): Promise<string | null> {
  const path = `/audit_events?record_type=subscriber_import&record_id=${id}&action=paused&per_page=1`
  const [event] = await get<PauseEvent[]>(path, signal).catch((error: unknown) => {
    if (isAbort(error)) throw error
    return []
  })
  if (event === undefined) return null
  return `${event.user_name ?? event.api_key_name ?? 'The service'} paused it at ${exactTime(event.occurred_at)}.`
}
