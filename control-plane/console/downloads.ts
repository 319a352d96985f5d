import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { getLog, messageOf } from './api.ts'
import { happened, outcomes, type Outcome } from './counts.ts'
import { Fault } from './page.ts'
import { may } from './session.ts'
import { usePageStore } from './store.ts'

const logDays = 7

/** Logs are kept for some days after the end. */
export const areLogsKept = ({ finished_at: end }: ImportView): boolean =>
  end === null || Date.now() - Date.parse(end) < logDays * 86_400_000

/** The logs of what happened, as files. */
export function Downloads({ view }: { view: ImportView }): VNode | null {
  const store = usePageStore<{ fault: string | null }>(() => ({ fault: null }))
  const kinds = happened(view.stats.subscribers)
  if (kinds.length === 0 || !may('subscriber', 'read')) return null
  if (!areLogsKept(view))
    return html`<p class="hint">The logs were kept for ${logDays} days, and are gone.</p>`
  const save = async (kind: Outcome, query = '') => {
    store.set({ fault: null })
    try {
      const log = await getLog(`/subscriber_imports/${view.id}/logs/${kind}${query}`)
      if (log === null) store.set({ fault: 'there is no such log any more' })
      else saveFile(await log.blob(), `${view.file_source.filename}.${view.id}.${kind}.csv`)
    } catch (error) {
      store.set({ fault: messageOf(error) })
    }
  }
  const button = (name: string, kind: Outcome, query?: string) =>
    html`<button key=${name} type="button" onClick=${() => void save(kind, query)}>${name}</button>`
  return html`<div class="actions downloads" role="group" aria-label="Downloads">
      ${
        kinds.includes('failed') && [
          button('Download failed rows', 'failed'),
          button('For a spreadsheet', 'failed', '?safe=true&line=true'),
        ]
      }
      ${kinds
        .filter((kind) => kind !== 'failed')
        .map((kind) => button(`Download ${outcomes[kind].name.toLowerCase()}`, kind))}
    </div>
    <${Fault} text=${store.value.fault} />`
}

/** Saves bytes as a file of that name. */
export function saveFile(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
