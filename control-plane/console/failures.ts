import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { CreatedImportView, ImportView } from '../resources/subscriber-imports/schemas.ts'
import { call, messageOf, useLoad } from './api.ts'
import { areLogsKept } from './downloads.ts'
import { formatRows, maxShownRows, readFailedRows, separatorOf, type FailedRow } from './failed-rows.ts'
import { number, randomName } from './format.ts'
import { asCreation, settingsLike } from './import-settings.ts'
import { Fault, Loading, valueOf } from './page.ts'
import { go } from './router.ts'
import { may } from './session.ts'
import { usePageStore } from './store.ts'
import { Table } from './table.ts'

type Failure = ImportView['failure_summary'][number]

const columnName = ({ column, header, field }: Failure): string =>
  column === null ? (field ?? 'the whole row') : (header ?? `column ${column}`)

/** Each reason with its rows, the largest first. */
export function WhyRowsFailed({ summary }: { summary: Failure[] }): VNode | null {
  if (summary.length === 0) return null
  return html`<section class="panel">
    <h2>Why rows failed</h2>
    <${Table}
      label="Why rows failed"
      rows=${summary}
      rowKey=${(failure: Failure) => `${failure.column} ${failure.field} ${failure.reason}`}
      columns=${[
        { name: 'Column', cell: columnName },
        { name: 'Reason', cell: ({ reason }: Failure) => html`<div class="reason">${reason}</div>` },
        { name: 'Rows', isNumber: true, cell: ({ rows }: Failure) => number(rows) },
        { name: 'First record', isNumber: true, cell: (failure: Failure) => number(failure.first_record) },
        {
          name: 'Example',
          cell: ({ example }: Failure) => (example === null ? '–' : html`<code>${example}</code>`),
        },
      ]}
    />
  </section>`
}

interface Mending {
  /** Changed cells, by row and column. */
  changes: Record<string, string>
  fault: string | null
  isBusy: boolean
  idempotencyKey: string
}

/** The first failed rows. With few of them their cells are fields, and the mended rows are a small import. */
export function FailedRows({ view }: { view: ImportView }): VNode | null {
  const { failed } = view.stats.subscribers
  const isReadable = failed > 0 && may('subscriber', 'read') && areLogsKept(view)
  const { data: rows, error } = useLoad<FailedRow[]>(
    (signal) => (isReadable ? readFailedRows(view, signal) : Promise.resolve([])),
    [view.id, isReadable, failed],
  )
  const store = usePageStore<Mending>(() => ({
    ...{ changes: {}, fault: null, isBusy: false, idempotencyKey: randomName() },
  }))
  if (!isReadable) return null
  if (rows === null)
    return error === null ? html`<${Loading} what="failed rows" />` : html`<${Fault} text=${error} />`
  const isMendable =
    failed <= maxShownRows &&
    rows.length === failed &&
    may('subscriber', 'import') &&
    !view.dry_run &&
    view.state !== 'failed' &&
    view.file_format.csv_field_escape === null
  const { changes, fault, isBusy } = store.value
  const cell = (row: FailedRow, i: number, column: number) => {
    const at = `${i} ${column}`
    const typed = row.cells[column] ?? ''
    if (!isMendable) return typed
    const change = (event: Event) => store.set({ changes: { ...changes, [at]: valueOf(event) } })
    const label = `Line ${row.line}, ${view.headers?.[column] ?? `column ${column + 1}`}`
    return html`<input aria-label=${label} value=${changes[at] ?? typed} onInput=${change} />`
  }
  const width = Math.max(...rows.map(({ cells }) => cells.length))
  const mended = () =>
    rows.map(({ cells }, i) => cells.map((typed, column) => changes[`${i} ${column}`] ?? typed))
  const submit = async () => {
    store.set({ fault: null, isBusy: true })
    try {
      const { id } = await importMended(view, mended(), store.value.idempotencyKey)
      await go(`/console/imports/${id}`)
    } catch (failure) {
      store.set({ fault: messageOf(failure), isBusy: false })
    }
  }
  return html`<section class="panel">
    <h2>Failed rows</h2>
    ${failed > rows.length && html`<p class="hint">The first ${number(rows.length)} of ${number(failed)}. Download all of them to correct them in a file.</p>`}
    <${Table}
      label="Failed rows"
      rows=${rows.map((row, i) => ({ row, i }))}
      rowKey=${({ i }: { i: number }) => i}
      columns=${[
        { name: 'Line', isNumber: true, cell: ({ row }: { row: FailedRow }) => row.line },
        {
          name: 'Reason',
          cell: ({ row }: { row: FailedRow }) => html`<div class="reason">${row.reason}</div>`,
        },
        ...Array.from({ length: width }, (_, column) => ({
          name: view.headers?.[column] || `Column ${column + 1}`,
          cell: ({ row, i }: { row: FailedRow; i: number }) => cell(row, i, column),
        })),
      ]}
    />
    ${
      isMendable &&
      html`<div class="buttons">
          <button type="button" class="primary" disabled=${isBusy} onClick=${() => void submit()}>Import the mended rows</button>
        </div>
        <p class="hint">They are imported with the same settings; subscribers that are not among them stay as they are.</p>
        <${Fault} text=${fault} />`
    }
  </section>`
}

function importMended(
  view: ImportView,
  rows: string[][],
  idempotencyKey: string,
): Promise<CreatedImportView> {
  const { csv_has_headers, csv_field_enclosure, date_format } = view.file_format
  const headers = csv_has_headers && view.headers !== null ? [view.headers] : []
  const creation = {
    ...asCreation(settingsLike(view, true), view.column_mapping),
    column_mapping: view.column_mapping,
    file_format: {
      ...{ csv_has_headers: headers.length > 0, csv_field_enclosure, date_format },
      csv_field_separator: separatorOf(view),
    },
    file_source: {
      ...{ type: 'json', content: formatRows([...headers, ...rows], view) },
      display_name: `Mended rows of ${view.file_source.filename}`.slice(0, 255),
    },
  }
  return call(
    'POST',
    `/mailing_lists/${view.mailing_list_id}/subscriber_imports`,
    { subscriber_import: creation },
    { headers: { 'idempotency-key': idempotencyKey } },
  )
}
