import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, getPage, useLoad, useRows } from './api.ts'
import { StateMark, stateNames } from './counts.ts'
import { number, percent, today } from './format.ts'
import { ListField } from './list-field.ts'
import { Check, Field, Page } from './page.ts'
import { filter, setQuery } from './router.ts'
import { table, when, wide, type Column } from './table.ts'

const pollMs = 5_000
const running = 'downloading,splitting,importing'
const states = [['', 'All states'], [running, 'Running'], ...stateNames]

/** What the address asks for. */
function filtersOfAddress() {
  const list = filter('list').value
  return {
    /** Comma-separated states; blank for all. */
    state: filter('state').value,
    list: /^\d+$/.test(list) ? list : '',
    isToday: filter('since').value === 'today',
    hasChecks: filter('checks').value !== '',
  }
}
type Filters = ReturnType<typeof filtersOfAddress>

const pathOf = ({ list }: Filters): string =>
  `${list === '' ? '' : `/mailing_lists/${list}`}/subscriber_imports`

const endedToday = ({ finished_at: end }: ImportView): boolean => end?.startsWith(today()) === true

/** Imports of all lists, newest first. */
export function Imports() {
  const filters = filtersOfAddress()
  const { state, list, isToday, hasChecks } = filters
  // Those that ended today are the first ones in the order of their end.
  const order = isToday ? 'scope=finished' : 'scope=all&order=created'
  const byState = state === '' ? '' : `&state=${state}`
  const imports = useRows<ImportView>(`${pathOf(filters)}?view=full&per_page=50&${order}${byState}`, pollMs)
  const isShown = (row: ImportView) => (hasChecks || !row.dry_run) && (!isToday || endedToday(row))
  return html`<${Page} title="Imports">
    <${Counts} ...${filters} />
    <div class="filters">
      <${Field} label="State" options=${states} value=${state} onPick=${(picked: string) => setQuery({ state: picked, since: '' })} />
      <${ListField}
        listId=${list === '' ? null : Number(list)}
        onPick=${(id: number | null) => setQuery({ list: String(id ?? '') })}
      />
      <${Check} label="Checks" checked=${hasChecks} onPick=${(isOn: boolean) => setQuery({ checks: isOn ? 'true' : '' })} />
    </div>
    ${table({
      ...imports,
      label: 'Imports',
      columns,
      rows: imports.rows && imports.rows.filter(isShown),
      rowKey: ({ id }) => id,
      empty: html`<${NoImports} filters=${filters} more=${imports.more} />`,
    })}
  <//>`
}

/** How many imports run, failed today and are paused; each shows those. */
function Counts(filters: Filters) {
  const { state, list, isToday, hasChecks } = filters
  const load = async (signal: AbortSignal) => {
    const path = pathOf(filters)
    const active = await getPage<ImportView[]>(
      `${path}?view=full&per_page=100&scope=active&state=${running},paused`,
      signal,
    )
    const ended = `${path}?per_page=100&scope=finished&state=failed`
    const failed = await get<ImportView[]>(ended, signal)
    // Only a full view says whether it was a check.
    const known = failed.some(endedToday) ? await get<ImportView[]>(`${ended}&view=full`, signal) : []
    const isCounted = ({ dry_run: isCheck }: ImportView) => hasChecks || !isCheck
    const unfinished = active.data.filter(isCounted)
    const paused = unfinished.filter((row) => row.state === 'paused').length
    const isCut = (active.next_page_token ?? null) !== null
    return {
      running: atLeast(unfinished.length - paused, isCut),
      failed: atLeast(
        known.filter((row) => endedToday(row) && isCounted(row)).length,
        failed.length === 100 && failed.every(endedToday),
      ),
      paused: atLeast(paused, isCut),
    }
  }
  const { data } = useLoad(load, [list, hasChecks], pollMs)
  const count = (name: string, value = '…', wanted: { state: string; since: string }) => {
    const isPressed = state === wanted.state && isToday === (wanted.since !== '')
    const press = () => setQuery(isPressed ? { state: '', since: '' } : wanted)
    return html`<button type="button" aria-pressed=${isPressed} onClick=${press}><strong>${value}</strong> ${name}</button>`
  }
  return html`<div class="filter-counts" role="group" aria-label="Counts">
    ${count('Running', data?.running, { state: running, since: '' })}
    ${count('Failed today', data?.failed, { state: 'failed', since: 'today' })}
    ${count('Paused', data?.paused, { state: 'paused', since: '' })}
  </div>`
}

const atLeast = (count: number, isMore: boolean): string => `${number(count)}${isMore ? '+' : ''}`

function NoImports({
  filters: { state, list, isToday },
  more,
}: {
  filters: Filters
  more: (() => void) | null
}) {
  if (more !== null)
    return html`<p>None of the latest imports is shown: they are checks.</p>
      <button type="button" onClick=${more}>Show more</button>`
  if (state !== '' || list !== '' || isToday)
    return html`<p>No import is like this.</p>
      <button type="button" onClick=${() => setQuery({ state: '', list: '', since: '' })}>Show all imports</button>`
  return html`<p>No file was imported yet. Open a list, or make one, and import a file into it.</p>
    <a class="button primary" href="/console/lists">Mailing lists</a>`
}

const columns: Column<ImportView>[] = [
  {
    name: 'File',
    cell: ({ id, file_source: { filename }, dry_run: isCheck }) =>
      html`${wide(html`<a href=${`/console/imports/${id}`}>${filename}</a>`)} ${isCheck && html`<span class="tag">Check</span>`}`,
  },
  {
    name: 'List',
    cell: ({ mailing_list_id: id, mailing_list_name: name }) =>
      wide(html`<a href=${`/console/lists/${id}`}>${name}</a>`),
  },
  { name: 'State', cell: (row) => html`<${StateMark} state=${row.state} />${progress(row)}` },
  { name: 'Rows', isNumber: true, cell: ({ stats }) => number(stats.records_imported) },
  {
    name: 'Failed',
    isNumber: true,
    cell: ({ stats: { subscribers } }) =>
      html`<span class=${subscribers.failed > 0 && 'fault'}>${number(subscribers.failed)}</span>`,
  },
  { name: 'Why', cell: (row) => html`<div class="why two-lines">${why(row)}</div>` },
  { name: 'Created', cell: ({ created_at: at }) => when(at) },
]

/** How much of an import that isn't over is done. */
function progress({
  finished_at: end,
  stats: { number_of_records: all, records_imported: done },
}: ImportView) {
  return end === null && all !== null && all > 0 && html`<div class="hint">${percent(done / all)}</div>`
}

/** What failed the import, or the fault that most of its rows have. */
function why({ error_message: message, failure_summary: [first, ...others] }: ImportView): string {
  if (message !== null) return message
  if (first === undefined) return ''
  const column = first.header ?? first.field
  const more = others.length === 0 ? '' : `, and ${number(others.length)} more`
  return `${column === null ? '' : `${column}: `}${first.reason}${more}`
}
