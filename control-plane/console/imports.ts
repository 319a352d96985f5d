import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, getPage, useLoad, usePolling, useRows } from './api.ts'
import { number, percent, time, today } from './format.ts'
import { StateMark, stateNames } from './import-state.ts'
import { ListField } from './list-field.ts'
import { Check, Page, Select, isTicked } from './page.ts'
import { address, setQuery } from './router.ts'
import { Listing, type Column } from './table.ts'

const pollMs = 5_000
const running = 'downloading,splitting,importing'
const states = [
  ['', 'All states'],
  [running, 'Running'],
  ...Object.entries(stateNames),
] as readonly (readonly [string, string])[]

/** What the address asks for. */
interface Filters {
  /** Comma-separated states; blank for all. */
  state: string
  list: string
  isToday: boolean
  hasChecks: boolean
}

function filtersOfAddress(): Filters {
  const { query } = address.value
  return {
    state: query.get('state') ?? '',
    list: /^\d+$/.exec(query.get('list') ?? '')?.[0] ?? '',
    isToday: query.get('since') === 'today',
    hasChecks: query.has('checks'),
  }
}

const pathOf = (list: string): string =>
  list === '' ? '/subscriber_imports' : `/mailing_lists/${list}/subscriber_imports`

/** Imports of all lists, newest first. */
export function Imports(): VNode {
  const filters = filtersOfAddress()
  const { state, list, isToday } = filters
  // Those that ended today are the first ones in the order of their end.
  const order = isToday ? 'scope=finished' : 'scope=all&order=created'
  const byState = state === '' ? '' : `&state=${state}`
  const rows = useRows<ImportView>(`${pathOf(list)}?view=full&per_page=50&${order}${byState}`)
  usePolling(rows, pollMs)
  const { data, error, more } = rows
  return html`<${Page} title="Imports">
    <${Counts} ...${filters} />
    <div class="filters">
      <${Select}
        ...${{ label: 'State', options: states, value: state }}
        onPick=${(picked: string) => setQuery({ state: picked, since: '' })}
      />
      <${ListField}
        listId=${list === '' ? null : Number(list)}
        onPick=${(id: number | null) => setQuery({ list: id === null ? '' : String(id) })}
      />
      <${Check}
        label="Checks"
        checked=${filters.hasChecks}
        onChange=${(event: Event) => setQuery({ checks: isTicked(event) ? 'true' : '' })}
      />
    </div>
    <${Listing}
      ...${{ label: 'Imports', columns, error, more }}
      rows=${data?.filter((row) => isShown(row, filters)) ?? null}
      rowKey=${({ id }: ImportView) => id}
      empty=${html`<${NoImports} filters=${filters} more=${more} />`}
    />
  <//>`
}

const isShown = ({ dry_run: isCheck, finished_at: end }: ImportView, filters: Filters): boolean =>
  (filters.hasChecks || !isCheck) && (!filters.isToday || end?.startsWith(today()) === true)

const atLeast = (count: number, isMore: boolean): string => `${number(count)}${isMore ? '+' : ''}`

/** How many imports run, failed today and are paused; each shows those. */
function Counts({ state, list, isToday, hasChecks }: Filters): VNode {
  const counts = useLoad(
    async (signal) => {
      const at = pathOf(list)
      const unfinished = await getPage<ImportView[]>(
        `${at}?view=full&per_page=100&scope=active&state=${running},paused`,
        signal,
      )
      const ended = `${at}?scope=finished&state=failed&per_page=100`
      const failed = await get<ImportView[]>(ended, signal)
      const isFailedToday = ({ finished_at: end }: ImportView) => end?.startsWith(today()) === true
      // Only a full view says whether it was a check.
      const isNone = hasChecks || !failed.some(isFailedToday)
      const known = isNone ? failed : await get<ImportView[]>(`${ended}&view=full`, signal)
      const listed = unfinished.data.filter(({ dry_run: isCheck }) => hasChecks || !isCheck)
      const paused = listed.filter((row) => row.state === 'paused').length
      const failedToday = known.filter((row) => isFailedToday(row) && (hasChecks || !row.dry_run)).length
      const isCut = (unfinished.next_page_token ?? null) !== null
      return {
        running: atLeast(listed.length - paused, isCut),
        failed: atLeast(failedToday, failed.length === 100 && failed.every(isFailedToday)),
        paused: atLeast(paused, isCut),
      }
    },
    [list, hasChecks],
  )
  usePolling(counts, pollMs)
  const { data } = counts
  const count = (name: string, value = '…', wanted: { state: string; since: string }) => {
    const isPressed = state === wanted.state && isToday === (wanted.since !== '')
    const press = () => setQuery(isPressed ? { state: '', since: '' } : wanted)
    return html`<button type="button" aria-pressed=${isPressed} onClick=${press}>
      <strong>${value}</strong> ${name}
    </button>`
  }
  return html`<div class="filter-counts" role="group" aria-label="Counts">
    ${count('Running', data?.running, { state: running, since: '' })}
    ${count('Failed today', data?.failed, { state: 'failed', since: 'today' })}
    ${count('Paused', data?.paused, { state: 'paused', since: '' })}
  </div>`
}

function NoImports({ filters, more }: { filters: Filters; more: (() => void) | null }): VNode {
  const { state, list, isToday, hasChecks } = filters
  const isFiltered = state !== '' || list !== '' || isToday
  const showAll = () => setQuery({ state: '', list: '', since: '' })
  if (more !== null)
    return html`<p>None of the latest imports is shown: they are checks.</p>
      <button type="button" onClick=${more}>Show more</button>`
  if (isFiltered)
    return html`<p>No import is like this.</p>
      <button type="button" onClick=${showAll}>Show all imports</button>`
  return html`<p>
      ${hasChecks ? 'No file was imported or checked yet.' : 'No file was imported yet.'} Open a list, or make
      one, and import a file into it.
    </p>
    <a class="button primary" href="/console/lists">Mailing lists</a>`
}

const columns: Column<ImportView>[] = [
  {
    name: 'File',
    cell: ({ id, file_source: { filename }, dry_run: isCheck }) =>
      html`<div class="two-lines"><a href=${`/console/imports/${id}`}>${filename}</a></div>
        ${isCheck && html`<span class="tag">Check</span>`}`,
  },
  {
    name: 'List',
    cell: ({ mailing_list_id: id, mailing_list_name: name }) =>
      html`<div class="two-lines"><a href=${`/console/lists/${id}`}>${name}</a></div>`,
  },
  { name: 'State', cell: (row) => html`<${StateMark} state=${row.state} />${progress(row)}` },
  { name: 'Rows', isNumber: true, cell: ({ stats }) => number(stats.records_imported) },
  {
    name: 'Failed',
    isNumber: true,
    cell: ({ stats: { subscribers } }) =>
      html`<span class=${subscribers.failed > 0 ? 'fault' : null}>${number(subscribers.failed)}</span>`,
  },
  { name: 'Why', cell: (row) => html`<div class="why two-lines">${why(row)}</div>` },
  { name: 'Created', cell: ({ created_at: at }) => html`<span class="together">${time(at)}</span>` },
]

/** How much of an import that isn't over is done. */
function progress({ finished_at: end, stats }: ImportView): VNode | null {
  const { number_of_records: all, records_imported: done } = stats
  return end !== null || all === null || all === 0
    ? null
    : html`<div class="hint">${percent(done / all)}</div>`
}

/** What failed the import, or the fault that most of its rows have. */
function why({ error_message: message, failure_summary: [first, ...others] }: ImportView): string {
  if (message !== null) return message
  if (first === undefined) return ''
  const column = first.header ?? first.field
  const more = others.length === 0 ? '' : `, and ${number(others.length)} more`
  return `${column === null ? '' : `${column}: `}${first.reason}${more}`
}
