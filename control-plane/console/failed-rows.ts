import { parse } from 'csv-parse/browser/esm/sync'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { getLog } from './api.ts'

/** The failed log of an import as rows, of which a page shows the first hundred. */

export interface FailedRow {
  line: string
  cells: string[]
  reason: string
}

export const maxShownRows = 100
/** Of a longer log no more is read; a hundred rows of ordinary files take some 20 kB. */
const maxReadBytes = 2_000_000

export async function readFailedRows(view: ImportView, signal: AbortSignal): Promise<FailedRow[]> {
  const response = await getLog(`/subscriber_imports/${view.id}/logs/failed?line=true`, signal)
  if (response === null) return []
  const { csv_skip_lines: skipped, csv_has_headers: hasHeader, csv_field_enclosure: quote } = view.file_format
  const text = await readBeginning(response)
  const isSeparatorNamed = /^\W?sep=/i.test(text)
  const linesBefore = skipped + Number(isSeparatorNamed)
  const rows = parse(text, {
    ...{ delimiter: separatorOf(view), quote, escape: quote, bom: true },
    ...{ relax_column_count: true, relax_quotes: true, skip_records_with_error: true },
    ...{ from_line: linesBefore + 1, to: maxShownRows + Number(hasHeader) },
  })
  return rows.slice(Number(hasHeader)).map((row) => ({
    ...{ line: row.at(-2) ?? '', cells: row.slice(0, -2), reason: row.at(-1) ?? '' },
  }))
}

export const separatorOf = ({ file_format, detected_csv_field_separator: detected }: ImportView): string =>
  detected ?? (file_format.csv_field_separator === 'auto' ? ',' : file_format.csv_field_separator)

/** The log's text in its character set. */
async function readBeginning(response: Response): Promise<string> {
  const [, charset = 'utf-8'] = /charset=([\w-]+)/i.exec(response.headers.get('content-type') ?? '') ?? []
  const decoder = new TextDecoder(charset)
  const reader = response.body!.getReader()
  let text = ''
  for (let read = 0; read < maxReadBytes;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    read += value.length
    text += decoder.decode(value, { stream: true })
  }
  await reader.cancel()
  return text
}

/** Rows as the file had them, with the file's separator and enclosure. */
export function formatRows(rows: string[][], view: ImportView): string {
  const separator = separatorOf(view)
  const { csv_field_enclosure: quote } = view.file_format
  const written = (cell: string): string =>
    /[\r\n]|^\s|\s$/.test(cell) || cell.includes(separator) || cell.includes(quote)
      ? `${quote}${cell.replaceAll(quote, quote + quote)}${quote}`
      : cell
  return rows.map((cells) => `${cells.map(written).join(separator)}\n`).join('')
}
