import { parse } from 'csv-parse/browser/esm/sync'
import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { CreatedImportView, ImportView } from '../resources/subscriber-imports/schemas.ts'
import { call, getStream, useAction, useLoad } from './api.ts'
import { number, randomName } from './format.ts'
import { asCreation, settingsLike } from './import-settings.ts'
import { Fault, Loading, valueOf } from './page.ts'
import { go } from './router.ts'
import { may } from './session.ts'
import { table } from './table.ts'

type Failure = ImportView['failure_summary'][number]

const columnName = ({ column, header, field }: Failure): string =>
  column === null ? (field ?? 'the whole row') : (header ?? `column ${column}`)
const reasonCell = ({ reason }: { reason: string }) => html`<div class="reason">${reason}</div>`

/** Each reason with its rows, the largest first. */
export function WhyRowsFailed({ summary }: { summary: Failure[] }) {
  if (summary.length === 0) return null
  return html`<section class="panel">
    <h2>Why rows failed</h2>
    ${table({
      label: 'Why rows failed',
      rows: summary,
      columns: [
        { name: 'Column', cell: columnName },
        { name: 'Reason', cell: reasonCell },
        { name: 'Rows', isNumber: true, cell: ({ rows }) => number(rows) },
        { name: 'First record', isNumber: true, cell: ({ first_record: first }) => number(first) },
        { name: 'Example', cell: ({ example }) => (example === null ? '–' : html`<code>${example}</code>`) },
      ],
    })}
  </section>`
}

export const logDays = 7

/** Logs are kept for some days after the end. */
export const areLogsKept = ({ finished_at: end }: ImportView): boolean =>
  end === null || Date.now() - Date.parse(end) < logDays * 86_400_000

/** The first failed rows. With few of them their cells are fields, and the mended rows are a small import. */
export function FailedRows({ view }: { view: ImportView }) {
  const { failed } = view.stats.subscribers
  const isReadable = failed > 0 && may('subscriber', 'read') && areLogsKept(view)
  const load = async (signal: AbortSignal) => (isReadable ? readFailedRows(view, signal) : [])
  const { data: rows, error } = useLoad(load, [view.id, isReadable, failed])
  /** Changed cells, by row and column. */
  const [changes, setChanges] = useState<Record<string, string>>({})
  const [idempotencyKey] = useState(randomName)
  const { isBusy, fault, run } = useAction()
  if (!isReadable) return null
  if (rows === null) return html`<${Loading} what="failed rows" error=${error} />`
  const mayMend = may('subscriber', 'import') && !view.dry_run && view.state !== 'failed'
  const isMendable = mayMend && rows.length === failed && view.file_format.csv_field_escape === null
  const columnNameAt = (column: number) => view.headers?.[column] || `Column ${column + 1}`
  const cell = (row: FailedRow, column: number) => {
    const typed = row.cells[column] ?? ''
    if (!isMendable) return typed
    const at = `${row.line} ${column}`
    const change = (event: Event) => setChanges({ ...changes, [at]: valueOf(event) })
    return html`<input aria-label=${`Line ${row.line}, ${columnNameAt(column)}`} value=${changes[at] ?? typed} onInput=${change} />`
  }
  const width = Math.max(...rows.map(({ cells }) => cells.length))
  const importMended = async () => {
    const mended = rows.map(({ line, cells }) => cells.map((typed, i) => changes[`${line} ${i}`] ?? typed))
    const path = `/mailing_lists/${view.mailing_list_id}/subscriber_imports`
    const headers = { 'idempotency-key': idempotencyKey }
    const { id } = await call<CreatedImportView>('POST', path, importOf(mended, view), { headers })
    await go(`/console/imports/${id}`)
  }
  return html`<section class="panel">
    <h2>Failed rows</h2>
    ${failed > rows.length && html`<p class="hint">The first ${number(rows.length)} of ${number(failed)}. Download all of them to correct them in a file.</p>`}
    ${table({
      label: 'Failed rows',
      rows,
      columns: [
        { name: 'Line', isNumber: true, cell: ({ line }) => line },
        { name: 'Reason', cell: reasonCell },
        ...Array.from({ length: width }, (_, column) => ({
          name: columnNameAt(column),
          cell: (row: FailedRow) => cell(row, column),
        })),
      ],
    })}
    ${
      isMendable &&
      html`<div class="buttons">
          <button type="button" class="primary" disabled=${isBusy} onClick=${() => run(importMended)}>Import the mended rows</button>
        </div>
        <p class="hint">They are imported with the same settings; subscribers that are not among them stay as they are.</p>
        <${Fault} text=${fault} />`
    }
  </section>`
}

interface FailedRow {
  line: string
  cells: string[]
  reason: string
}

const maxShownRows = 100
/** Of a longer log no more is read; a hundred rows of ordinary files take some 20 kB. */
const maxReadBytes = 2_000_000

async function readFailedRows(view: ImportView, signal: AbortSignal): Promise<FailedRow[]> {
  const text = await readBeginning(
    await getStream(`/subscriber_imports/${view.id}/logs/failed?line=true`, signal),
  )
  const { csv_skip_lines: skipped, csv_has_headers: hasHeader, csv_field_enclosure: quote } = view.file_format
  const rows = parse(text, {
    delimiter: separatorOf(view),
    quote,
    escape: quote,
    bom: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_records_with_error: true,
    // A line such as `sep=;` may stand before the others.
    from_line: skipped + Number(/^\W?sep=/i.test(text)) + 1,
    to: maxShownRows + Number(hasHeader),
  })
  return rows
    .slice(Number(hasHeader))
    .map((row) => ({ line: row.at(-2) ?? '', cells: row.slice(0, -2), reason: row.at(-1) ?? '' }))
}

const separatorOf = ({ file_format, detected_csv_field_separator: detected }: ImportView): string =>
  detected ?? (file_format.csv_field_separator === 'auto' ? ',' : file_format.csv_field_separator)

/** The log's text in its character set. */
async function readBeginning(response: Response): Promise<string> {
  const [, charset = 'utf-8'] = /charset=([\w-]+)/i.exec(response.headers.get('content-type') ?? '') ?? []
  const decoder = new TextDecoder(charset)
  let text = ''
  let read = 0
  for await (const piece of response.body!) {
    text += decoder.decode(piece, { stream: true })
    read += piece.length
    if (read >= maxReadBytes) return text
  }
  return text + decoder.decode()
}

/** The import of the mended rows, written as the file had them. */
function importOf(rows: string[][], view: ImportView) {
  const { csv_has_headers, csv_field_enclosure: quote, date_format } = view.file_format
  const separator = separatorOf(view)
  const headers = csv_has_headers && view.headers !== null ? [view.headers] : []
  const isQuoted = (cell: string) =>
    /[\r\n]|^\s|\s$/.test(cell) || cell.includes(separator) || cell.includes(quote)
  const written = (cell: string) =>
    isQuoted(cell) ? `${quote}${cell.replaceAll(quote, quote + quote)}${quote}` : cell
  const content = [...headers, ...rows].map((cells) => `${cells.map(written).join(separator)}\n`).join('')
  const subscriber_import = {
    ...asCreation(settingsLike(view, true), view.column_mapping),
    column_mapping: view.column_mapping,
    file_format: {
      csv_has_headers: headers.length > 0,
      csv_field_enclosure: quote,
      csv_field_separator: separator,
      date_format,
    },
    file_source: {
      type: 'json',
      content,
      display_name: `Mended rows of ${view.file_source.filename}`.slice(0, 255),
    },
  }
  return { subscriber_import }
}
