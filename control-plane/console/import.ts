import { useEffect } from 'preact/hooks'
import { html } from 'htm/preact'
import { hasEnded, pausableStates } from '../../shared/contract/import-state.ts'
import type { AuditEventView } from '../resources/audit-events/schemas.ts'
import type { ServiceStateView } from '../resources/service-state/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { call, get, getStream, messageOf, useAction, useLoad } from './api.ts'
import type { PageProps } from './app.ts'
import { happened, OutcomeCounts, outcomes, StateMark, type Outcome } from './counts.ts'
import { ask } from './dialog.ts'
import { areLogsKept, FailedRows, logDays, WhyRowsFailed } from './failures.ts'
import { followImport } from './follow.ts'
import { bytes, counted, duration, exactTime, number, percent, sentence } from './format.ts'
import { describeSettings } from './import-settings.ts'
import { Facts, Fault, Page, Warnings } from './page.ts'
import { currentRate, RatePlot, withSample, type Sample } from './plot.ts'
import { isAdmin, may } from './session.ts'
import { usePageStore } from './store.ts'
import { table } from './table.ts'

/** One import, followed until it has ended. */
export function Import({ ids: [id = 0] }: PageProps) {
  const store = usePageStore({
    view: null as ImportView | null,
    samples: [] as Sample[],
    error: null as string | null,
  })
  const { view, samples, error } = store.value
  const onView = (next: ImportView) => {
    const sample = { at: Date.now() / 1000, rows: next.stats.records_imported }
    const all = next.state === 'importing' ? withSample(store.value.samples, sample) : store.value.samples
    // A pause begins the plot anew.
    store.set({ view: next, samples: next.state === 'importing' || hasEnded(next.state) ? all : [] })
  }
  useEffect(() => {
    const leaving = new AbortController()
    followImport(id, { onView, signal: leaving.signal }).catch((failure: unknown) =>
      store.set({ error: messageOf(failure) }),
    )
    return () => leaving.abort()
  }, [])
  if (view === null) return html`<${Page} title=${error && `Import ${id}`} error=${error} />`
  const share = shareDone(view)
  const { filename } = view.file_source
  const isOver = hasEnded(view.state)
  const list = html`<a href=${`/console/lists/${view.mailing_list_id}`}>${view.mailing_list_name}</a>`
  return html`<${Page}
    title=${`Import ${id}`}
    above=${list}
    tab=${isOver || share === null ? null : `${percent(share)} · ${filename}`}
    actions=${html`<${Moves} ...${{ view, onView }} />`}
  >
    <div class="panel">
      <p class="file">
        <strong>${filename}</strong> <${StateMark} state=${view.state} />
        ${view.dry_run && html` <span class="tag">Check</span>`}
      </p>
      <${Progress} view=${view} samples=${samples} />
      ${!isOver && html`<${Standstill} view=${view} />`}
      <${Fault} text=${view.error_message} />
      <${Fault} text=${error} />
      <${ResultsInWords} view=${view} />
      <${RatePlot} samples=${samples} />
      <${OutcomeCounts} counts=${view.stats.subscribers} />
      <${Warnings} warnings=${view.warnings} />
      <${Downloads} view=${view} />
    </div>
    <${WhyRowsFailed} summary=${view.failure_summary} />
    ${isOver && html`<${FailedRows} view=${view} />`}
    <section class="panel">
      <h2>Settings</h2>
      <${Facts} label="When and by whom" facts=${timesOf(view)} />
      <${Facts} label="Settings" facts=${describeSettings(view)} />
      ${mapping(view)}
    </section>
  <//>`
}

function shareDone({ stats: { number_of_records: all, records_imported: done } }: ImportView): number | null {
  return all === null ? null : all === 0 ? 1 : done / all
}

function Progress({ view, samples }: { view: ImportView; samples: Sample[] }) {
  if (hasEnded(view.state) || view.state === 'scheduled') return null
  const share = shareDone(view)
  const { number_of_records: all, records_imported: done } = view.stats
  const rate = view.state === 'importing' ? currentRate(samples) : null
  const left = rate === null || rate <= 0 || all === null ? null : (all - done) / rate
  const before = view.state === 'downloading' ? 'The file is downloaded' : 'The file is read'
  return html`<div class="progress">
    <progress aria-label="Progress" max="1" value=${share ?? undefined} />
    <p>
      ${share === null ? before : `${percent(share)}: ${number(done)} of ${counted(all ?? 0, 'row')}`}
      ${rate !== null && `, ${number(Math.round(rate))} rows a second`}${left !== null && `, ${duration(left)} left`}
    </p>
  </div>`
}

/** What can be done with the import now. */
function Moves({ view, onView }: { view: ImportView; onView: (view: ImportView) => void }) {
  const { fault, run } = useAction()
  if (!may('subscriber', 'import') || hasEnded(view.state)) return null
  const move = (name: 'pause' | 'unpause' | 'cancel') =>
    run(async () => onView(await call('POST', `/subscriber_imports/${view.id}/${name}`)))
  const cancel = async () => {
    const text = `It ends for good. The ${counted(view.stats.records_imported, 'row')} that it has done stay.`
    if (await ask({ question: `Cancel import ${view.id}?`, text, verb: 'Cancel import' })) move('cancel')
  }
  const isPausable = pausableStates.some((state) => state === view.state)
  return html`
    ${isPausable && html`<button type="button" onClick=${() => move('pause')}>Pause</button>`}
    ${view.state === 'paused' && html`<button type="button" class="primary" onClick=${() => move('unpause')}>Resume</button>`}
    <button type="button" class="danger" onClick=${() => void cancel()}>Cancel</button>
    <${Fault} text=${fault} />
  `
}

const pollMs = 5_000

/** Why an import doesn't move: what it waits for, who paused it, and what is wrong with the service. */
function Standstill({ view }: { view: ImportView }) {
  const { state, waiting_for_import_id: other } = view
  const { data } = useLoad<ServiceStateView>((signal) => get('/service_state', signal), [], pollMs)
  const { data: pausedBy } = useLoad(
    async (signal) => (state === 'paused' && isAdmin() ? whoPaused(view.id, signal) : null),
    [state],
  )
  const problems = data?.problems.map((text) => `${sentence(text)}.`) ?? []
  const reasons = [...whyItWaits(view, pausedBy), ...problems]
  if (reasons.length === 0 && state === 'importing') return null
  const last = state === 'paused' || isToBegin(view) ? null : (data?.last_progress_at ?? null)
  const seconds = last === null ? 0 : Math.max(0, (Date.now() - Date.parse(last)) / 1000)
  return html`<div class="notice" role="status" aria-label="Why nothing moves">
    ${reasons.map((text) => html`<p key=${text}>${text}</p>`)}
    ${other !== null && html`<p>It waits for <a href=${`/console/imports/${other}`}>import ${other}</a>, because one import at a time works on a list.</p>`}
    ${last !== null && html`<p class="hint">The last progress of any import was ${duration(seconds)} ago.</p>`}
  </div>`
}

const isToBegin = ({ state, begins_at: at }: ImportView) =>
  state === 'scheduled' && Date.parse(at) > Date.now()

function whyItWaits(view: ImportView, pausedBy: string | null): string[] {
  const { state, download } = view
  if (state === 'paused') return [pausedBy ?? 'It is paused, and goes on when it is resumed.']
  if (isToBegin(view)) return [`It begins at ${exactTime(view.begins_at)}.`]
  if (state === 'scheduled' && view.waiting_for_import_id === null) return ['It waits for an engine.']
  if (state !== 'downloading' || download === null) return []
  const { attempt, next_attempt_at: next, bytes_received: received, bytes_expected: expected } = download
  if (next !== null)
    return [`Try ${attempt - 1} of the download failed; the next one is at ${exactTime(next)}.`]
  const all = expected === null ? '' : ` of ${bytes(expected)}`
  return [`${bytes(received)}${all} are downloaded, try ${attempt}.`]
}

/** The audit trail knows who paused it. */
async function whoPaused(id: number, signal: AbortSignal): Promise<string | null> {
  const path = `/audit_events?record_type=subscriber_import&record_id=${id}&action=paused&per_page=1`
  const [event] = await get<AuditEventView[]>(path, signal)
  if (event === undefined) return null
  return `${event.user_name ?? event.api_key_name ?? 'The service'} paused it at ${exactTime(event.occurred_at)}.`
}

/** An ended import in words, with the step that usually follows. */
function ResultsInWords({ view }: { view: ImportView }) {
  const { state, dry_run: isCheck, stats } = view
  if (state === 'cancelled') return html`<p>It was cancelled. The rows that it had done stay.</p>`
  if (state !== 'finished') return null
  const { added, updated, failed, skipped_overwrite: left, skipped_duplicate: twice } = stats.subscribers
  const over = stats.subscribers.skipped_over_limit
  const others = stats.records_imported - added - updated - failed - left - twice - over
  const were = isCheck ? 'would be' : 'were'
  const sentences: [number, string][] = [
    [added, `${were} added.`],
    [updated, `were on the list already and ${were} updated.`],
    [left, `are on the list already and ${were} left as they are.`],
    [others, 'have a status that is not overwritten.'],
    [twice, 'are in the file more than once; the first row of each counts.'],
    [over, 'found no place: the organization’s limit of active subscribers is reached.'],
    [failed, 'failed.'],
  ]
  const said = sentences.filter(([count]) => count > 0).map(([count, what]) => `${number(count)} ${what}`)
  const form = `/console/lists/${view.mailing_list_id}/import?like=${view.id}`
  const link = (name: string, more = '') => html`<a class="button" href=${`${form}${more}`}>${name}</a>`
  return html`<div class="results" role="status" aria-label="Result">
    <p>${said.join(' ') || 'The file has no record.'}</p>
    ${
      may('subscriber', 'import') &&
      html`<div class="actions">
        ${isCheck && link('Import it')}
        ${!isCheck && left > 0 && link('Import again and overwrite', '&overwrite=true')}
        ${!isCheck && failed > 0 && link('Import the corrected file')}
      </div>`
    }
  </div>`
}

/** The logs of what happened, as files. */
function Downloads({ view }: { view: ImportView }) {
  const { fault, run } = useAction()
  const kinds = happened(view.stats.subscribers)
  if (kinds.length === 0 || !may('subscriber', 'read')) return null
  if (!areLogsKept(view))
    return html`<p class="hint">The logs were kept for ${logDays} days, and are gone.</p>`
  const save = async (kind: Outcome, query: string) => {
    const log = await getStream(`/subscriber_imports/${view.id}/logs/${kind}${query}`)
    const link = document.createElement('a')
    link.href = URL.createObjectURL(await log.blob())
    link.download = `${view.file_source.filename}.${view.id}.${kind}.csv`
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
  }
  const button = (kind: Outcome, name = `Download ${outcomes[kind][0].toLowerCase()}`, query = '') =>
    html`<button key=${name} type="button" onClick=${() => run(() => save(kind, query))}>${name}</button>`
  const ofFailed = () => [
    button('failed', 'Download failed rows'),
    button('failed', 'For a spreadsheet', '?safe=true&line=true'),
  ]
  return html`<div class="actions downloads" role="group" aria-label="Downloads">
      ${kinds.includes('failed') && ofFailed()}
      ${kinds.filter((kind) => kind !== 'failed').map((kind) => button(kind))}
    </div>
    <${Fault} text=${fault} />`
}

function timesOf(view: ImportView): [string, string][] {
  const { created_at, created_by, cancelled_by, begins_at, started_at, finished_at } = view
  const by = (party: ImportView['created_by']) =>
    party === null ? '' : ` by ${party.user_name ?? party.api_key_name ?? 'the service'}`
  const ended = cancelled_by === null ? 'Ended' : `Cancelled${by(cancelled_by)}`
  return [
    ['Made', `${exactTime(created_at)}${by(created_by)}`],
    started_at === null ? ['Begins', exactTime(begins_at)] : ['Began', exactTime(started_at)],
    ...(finished_at === null ? [] : [[ended, exactTime(finished_at)] satisfies [string, string]]),
  ]
}

const mapping = ({ column_mapping: mapping, headers }: ImportView) =>
  table({
    label: 'Mapping',
    rows: [...mapping.entries()],
    columns: [
      { name: 'Column', cell: ([column]) => column + 1 },
      { name: 'Header', cell: ([column]) => headers?.[column] ?? '–' },
      { name: 'Imported as', cell: ([, field]) => field ?? html`<span class="hint">ignored</span>` },
    ],
  })
