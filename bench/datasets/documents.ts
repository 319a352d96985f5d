import { isDeepStrictEqual } from 'node:util'
import type { SubscriberFile } from './subscriber-file.ts'

/** A row with typed values by column, as the peers store it. */
export function flatDocument(dataset: SubscriberFile, row: number): Record<string, unknown> {
  const cells = dataset.cells(row)
  return Object.fromEntries(dataset.columns.map((column, i) => [column, parseCell(column, cells[i] ?? '')]))
}

/** The values of custom fields, by name, as Rollcall stores them: a date is a text such as `2026-12-31`. */
export function fieldValues(dataset: SubscriberFile, row: number): [string, unknown][] {
  const { email: _email, subscribe_time: _time, ...values } = flatDocument(dataset, row)
  return Object.entries(values).map(([name, value]) => [
    name,
    value instanceof Date ? value.toISOString().slice(0, 10) : value,
  ])
}

function parseCell(column: string, cell: string): unknown {
  if (column === 'points') return Number(cell)
  return column === 'birthday' || column === 'subscribe_time' ? new Date(`${cell} UTC`) : cell
}

/** Whole documents are compared beside counts and a sum, which don't show a wrong address or text. */
const sampleSize = 400

/** Rows spread evenly over a file, with its first and its last one. */
export function sampleRows(rows: number): number[] {
  const size = Math.min(sampleSize, rows)
  const last = Math.max(1, size - 1)
  return Array.from({ length: size }, (_, i) => Math.floor((i * (rows - 1)) / last))
}

/** Documents by key; null where none may be stored. */
export type Sample = Map<string, Record<string, unknown> | null>

/** A sample of what a file without defects leaves in a peer's collection, by email. */
export const flatSample = (dataset: SubscriberFile): Sample =>
  new Map(sampleRows(dataset.rows).map((row) => [dataset.emailOf(row), flatDocument(dataset, row)]))

/** A sentence about the first difference; null where there is none. */
export function wrongSample(found: Sample, expected: Sample): string | null {
  for (const [key, right] of expected) {
    const stored = found.get(key) ?? null
    if (!isDeepStrictEqual(stored, right))
      return `${key} is stored as ${JSON.stringify(stored)}, not ${JSON.stringify(right)}`
  }
  return null
}
