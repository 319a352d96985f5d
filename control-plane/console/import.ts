import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { call, messageOf } from './api.ts'
import type { PageProps } from './app.ts'
import { OutcomeCounts } from './counts.ts'
import { ask } from './dialog.ts'
import { Downloads } from './downloads.ts'
import { FailedRows, WhyRowsFailed } from './failures.ts'
import { followImport } from './follow.ts'
import { counted, duration, exactTime, number, percent } from './format.ts'
import { describeSettings } from './import-settings.ts'
import { hasEnded, StateMark } from './import-state.ts'
import { Standstill } from './standstill.ts'
import { Facts, Fault, Page, Warnings } from './page.ts'
import { currentRate, RatePlot, withSample, type Sample } from './plot.ts'
import { ResultsInWords } from './results.ts'
import { may } from './session.ts'
import { usePageStore, type Store } from './store.ts'
import { table } from './table.ts'

interface State {
  view: ImportView | null
  samples: Sample[]
  error: string | null
}

/** One import, followed until it has ended. */
export function Import({ ids: [id = 0] }: PageProps): VNode {
  const store = usePageStore<State>(() => ({ view: null, samples: [], error: null }))
  const { view, samples, error } = store.value
  useEffect(() => {
    const leaving = new AbortController()
    followImport(id, { onView: (next) => show(store, next), signal: leaving.signal }).catch(
      (failure: unknown) => store.set({ error: messageOf(failure) }),
    )
    return () => leaving.abort()
  }, [])
  const title = `Import ${id}`
  if (view === null) return html`<${Page} title=${error === null ? null : title} error=${error} />`
  const share = shareDone(view)
  const isRunning = !hasEnded(view.state) && share !== null
  const list = html`<a href=${`/console/lists/${view.mailing_list_id}`}>${view.mailing_list_name}</a>`
  return html`<${Page}
    ...${{ title, above: list }}
    tab=${isRunning ? `${percent(share)} · ${view.file_source.filename}` : null}
    actions=${html`<${Moves} ...${{ view }} onView=${(next: ImportView) => show(store, next)} />`}
  >
    <div class="panel">
      <p class="file">
        <strong>${view.file_source.filename}</strong> <${StateMark} state=${view.state} />
        ${view.dry_run && html` <span class="tag">Check</span>`}
      </p>
      <${Progress} ...${{ view, samples }} />
      <${Standstill} ...${{ view }} />
      <${Fault} text=${view.error_message} />
      <${Fault} text=${error} />
      <${ResultsInWords} ...${{ view }} />
      <${RatePlot} samples=${samples} />
      <${OutcomeCounts} counts=${view.stats.subscribers} />
      <${Warnings} warnings=${view.warnings} />
      <${Downloads} ...${{ view }} />
    </div>
    <${WhyRowsFailed} summary=${view.failure_summary} />
    ${hasEnded(view.state) && html`<${FailedRows} ...${{ view }} />`}
    <section class="panel">
      <h2>Settings</h2>
      <${Facts} label="When and by whom" facts=${timesOf(view)} />
      <${Facts} label="Settings" facts=${describeSettings(view)} />
      <${Mapping} ...${{ view }} />
    </section>
  <//>`
}

function show(store: Store<State>, view: ImportView): void {
  const { samples } = store.value
  const sample = { at: Date.now() / 1000, rows: view.stats.records_imported }
  const isMoving = view.state === 'importing'
  // A pause begins the plot anew.
  store.set({ view, samples: isMoving ? withSample(samples, sample) : hasEnded(view.state) ? samples : [] })
}

function shareDone({ stats: { number_of_records: all, records_imported: done } }: ImportView): number | null {
  return all === null ? null : all === 0 ? 1 : done / all
}

function Progress({ view, samples }: { view: ImportView; samples: Sample[] }): VNode | null {
  if (hasEnded(view.state) || view.state === 'scheduled') return null
  const share = shareDone(view)
  const { number_of_records: all, records_imported: done } = view.stats
  const rate = view.state === 'importing' ? currentRate(samples) : null
  const left = rate === null || rate <= 0 || all === null ? null : (all - done) / rate
  return html`<div class="progress">
    <progress aria-label="Progress" max="1" value=${share ?? undefined} />
    <p>
      ${share === null ? (view.state === 'downloading' ? 'The file is downloaded' : 'The file is read') : `${percent(share)}: ${number(done)} of ${counted(all ?? 0, 'row')}`}
      ${rate !== null && `, ${number(Math.round(rate))} rows a second`}${left !== null && `, ${duration(left)} left`}
    </p>
  </div>`
}

const pausable = ['scheduled', 'downloading', 'splitting', 'importing']

/** What can be done with the import now. */
function Moves({ view, onView }: { view: ImportView; onView: (view: ImportView) => void }): VNode | null {
  const store = usePageStore<{ fault: string | null }>(() => ({ fault: null }))
  if (!may('subscriber', 'import') || hasEnded(view.state)) return null
  const move = async (name: 'pause' | 'unpause' | 'cancel') => {
    store.set({ fault: null })
    try {
      onView(await call<ImportView>('POST', `/subscriber_imports/${view.id}/${name}`))
    } catch (error) {
      store.set({ fault: messageOf(error) })
    }
  }
  const cancel = async () => {
    const isSure = await ask({
      question: `Cancel import ${view.id}?`,
      text: `It ends for good. The ${counted(view.stats.records_imported, 'row')} that it has done stay.`,
      verb: 'Cancel import',
    })
    if (isSure) await move('cancel')
  }
  return html`
    ${pausable.includes(view.state) && html`<button type="button" onClick=${() => void move('pause')}>Pause</button>`}
    ${view.state === 'paused' && html`<button type="button" class="primary" onClick=${() => void move('unpause')}>Resume</button>`}
    <button type="button" class="danger" onClick=${() => void cancel()}>Cancel</button>
    <${Fault} text=${store.value.fault} />
  `
}

const timesOf = ({
  created_at,
  created_by,
  cancelled_by,
  begins_at,
  started_at,
  finished_at,
}: ImportView) => {
  const by = (party: ImportView['created_by']) =>
    party === null ? '' : ` by ${party.user_name ?? party.api_key_name ?? 'the service'}`
  return [
    ['Made', `${exactTime(created_at)}${by(created_by)}`],
    started_at === null ? ['Begins', exactTime(begins_at)] : ['Began', exactTime(started_at)],
    ...(finished_at === null
      ? []
      : [[cancelled_by === null ? 'Ended' : `Cancelled${by(cancelled_by)}`, exactTime(finished_at)]]),
  ] as [string, string][]
}

function Mapping({ view: { column_mapping: mapping, headers } }: { view: ImportView }): VNode {
  return table({
    label: 'Mapping',
    rows: [...mapping.entries()],
    rowKey: ([column]) => column,
    columns: [
      { name: 'Column', cell: ([column]) => column + 1 },
      { name: 'Header', cell: ([column]) => headers?.[column] ?? '–' },
      { name: 'Imported as', cell: ([, field]) => field ?? html`<span class="hint">ignored</span>` },
    ],
  })
}
