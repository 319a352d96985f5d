import { sampleRows, type Sample } from '../datasets/sample.ts'
import type { SubscriberFile } from '../datasets/subscriber-file.ts'

/** A row as the peers store it: one typed field a column. */
export function flatDocument(dataset: SubscriberFile, row: number): Record<string, unknown> {
  const types = new Map<string, string>(
    dataset.customFields.map(({ name, field_type }) => [name, field_type]),
  )
  types.set('subscribe_time', 'date')
  const cells = [...rowCells(dataset, row)]
  return Object.fromEntries(cells.map(([column, cell]) => [column, parseCell(types.get(column), cell)]))
}

function parseCell(type: string | undefined, cell: string): unknown {
  if (type === 'number') return Number(cell)
  if (type === 'boolean') return cell === 'true'
  return type === 'date' ? new Date(`${cell} UTC`) : cell
}

/** A sample of the documents that a file leaves. `valuesRow` names the row whose values an email has, null for none. */
export function flatSample(dataset: SubscriberFile, valuesRow: (row: number) => number | null): Sample {
  return new Map(
    sampleRows(dataset.rows).map((sampled) => {
      const row = dataset.firstRow(sampled)
      const { email } = flatDocument(dataset, row)
      const from = valuesRow(row)
      return [String(email), from === null ? null : { ...flatDocument(dataset, from), email }]
    }),
  )
}

/** Cells by column. The generator encloses one cell of a row at most. */
export function rowCells(dataset: SubscriberFile, row: number): Map<string, string> {
  const line = dataset.line(row).slice(0, -1)
  const [, before = '', enclosed = null, after = ''] = /^(.*?),"(.*)",(.*)$/s.exec(line) ?? []
  const cells =
    enclosed === null
      ? line.split(',')
      : [...before.split(','), enclosed.replaceAll('""', '"'), ...after.split(',')]
  return new Map(dataset.columns.map((column, i) => [column, cells[i] ?? '']))
}
