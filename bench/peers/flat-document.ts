import { sampledRows, type Sample } from '../datasets/sample.ts'
import type { SubscriberFile } from '../datasets/subscriber-file.ts'

/** A row as mongoimport and a program of an afternoon store it: one field a column, typed. */
export function flatDocument(dataset: SubscriberFile, row: number): Record<string, unknown> {
  const cells = cellsOf(dataset.line(row).slice(0, -1))
  const types = new Map(dataset.customFields.map(({ name, field_type }) => [name, field_type]))
  const document: Record<string, unknown> = {}
  for (const [i, column] of dataset.columns.entries()) {
    const cell = cells[i]!
    const type = column === 'subscribe_time' ? 'date' : types.get(column)
    document[column] =
      type === 'number'
        ? Number(cell)
        : type === 'boolean'
          ? cell === 'true'
          : type === 'date'
            ? new Date(`${cell} UTC`)
            : cell
  }
  return document
}

/** Some documents as they have to be stored; `valuesOf` names the row whose values an address has, null for none. */
export function flatSample(dataset: SubscriberFile, valuesOf: (row: number) => number | null): Sample {
  const sample: Sample = new Map()
  for (const sampled of sampledRows(dataset.rows)) {
    const row = dataset.kindOf(sampled) === 'duplicate' ? dataset.originalOf(sampled)! : sampled
    const { email } = flatDocument(dataset, row)
    const from = valuesOf(row)
    sample.set(email as string, from === null ? null : { ...flatDocument(dataset, from), email })
  }
  return sample
}

/** The generator encloses one cell at most, so that this is enough. */
export function cellsOf(line: string): string[] {
  const open = line.indexOf(',"')
  if (open === -1) return line.split(',')
  const close = line.indexOf('",', open + 2)
  return [
    ...line.slice(0, open).split(','),
    line.slice(open + 2, close).replaceAll('""', '"'),
    ...line.slice(close + 2).split(','),
  ]
}
