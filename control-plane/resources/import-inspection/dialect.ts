import { readCells } from '../../../shared/csv/csv-cells.ts'
import { recordFlags } from '../../../shared/csv/record-scanner.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import { isColumnWord } from './column-words.ts'
import type { Sample } from './sample.ts'
import { scanSample } from './sampled-records.ts'

/** How a sample's cells are told apart. Imports take all of these separators but the bar. */
export const separators = [',', ';', '\t', '|'] as const
export const enclosures = ['"', "'"] as const

export interface SampleDialect {
  separator: (typeof separators)[number]
  enclosure: (typeof enclosures)[number]
}

/** Bytes and records that are looked at with every separator and enclosure. */
const sampledBytes = 128 * 1024
const sampledRecords = 100

/** Cells of the first records, which are UTF-8. */
export function firstRecords(sample: Sample, { separator, enclosure }: SampleDialect): SampledCells {
  const beginning =
    sample.bytes.length <= sampledBytes
      ? sample
      : { bytes: sample.bytes.subarray(0, sampledBytes), isWhole: false }
  const found: SampledCells = { cells: [], enclosed: 0 }
  scanSample(beginning, {
    dialect: { separator: separator.charCodeAt(0), enclosure: enclosure.charCodeAt(0) },
    wantedColumn: 0,
    onRecord({ bytes, start, end, flags }) {
      if (found.cells.length === sampledRecords) return
      const isOdd = (flags & (recordFlags.irregular | recordFlags.unterminated)) !== 0
      if (!isOdd && (flags & recordFlags.enclosed) !== 0) found.enclosed += 1
      const text = bytes.toString('utf8', start, end)
      found.cells.push(
        (flags & recordFlags.unterminated) !== 0 ? [text] : readCells(text, dialectOf(separator, enclosure)),
      )
    },
  })
  return found
}

export interface SampledCells {
  cells: string[][]
  /** Records with regularly enclosed cells. */
  enclosed: number
}

/** `readCells` takes any characters; its type names those that imports take. */
const dialectOf = (separator: string, enclosure: string) =>
  ({ csv_field_separator: separator, csv_field_enclosure: enclosure }) as Parameters<typeof readCells>[1]

/**
 * The separator and enclosure under which the sample looks most like a table of subscribers: cells that are emails
 * count most, then as many cells in one record as in the other. The comma and the double quote where nothing tells.
 */
export function detectDialect(
  sample: Sample,
  given: {
    separator: SampleDialect['separator'] | undefined
    enclosure: SampleDialect['enclosure'] | undefined
  },
): SampleDialect {
  let best: { dialect: SampleDialect; score: number } | null = null
  for (const separator of given.separator === undefined ? separators : [given.separator]) {
    for (const enclosure of given.enclosure === undefined ? enclosures : [given.enclosure]) {
      const dialect = { separator, enclosure }
      const found = firstRecords(sample, dialect)
      // Whatever else speaks for it: an enclosure that encloses nothing is none.
      if (best !== null && enclosure !== '"' && found.enclosed === 0) continue
      const score = scoreOf(found)
      if (best === null || score > best.score + 1e-9) best = { dialect, score }
    }
  }
  return best!.dialect
}

function scoreOf({ cells, enclosed }: SampledCells): number {
  if (cells.length === 0) return 0
  const widths = new Map<number, number>()
  for (const { length } of cells) widths.set(length, (widths.get(length) ?? 0) + 1)
  const [width, records] = [...widths].reduce((a, b) => (b[1] > a[1] ? b : a))
  const withEmail = cells.filter((record) => record.some((cell) => isEmail(cell))).length
  const evenness = width === 1 ? 0 : records / cells.length
  return (2 * withEmail) / cells.length + evenness + (0.2 * enclosed) / cells.length
}

export const isEmail = (cell: string): boolean => emailIdentity(cell.trim()) !== null

/** Whether the first record is a header: by its words, or because it isn't like the records below it. */
export function detectHeader([first, ...others]: string[][], fieldNames: readonly string[]): boolean {
  if (first === undefined) return true
  if (first.some((cell) => isEmail(cell))) return false
  if (first.some((cell) => isColumnWord(cell, fieldNames))) return true
  const emailColumn = first.findIndex(
    (_, i) => others.filter((record) => isEmail(record[i] ?? '')).length * 2 > others.length,
  )
  if (others.length > 0 && emailColumn !== -1) return !first[emailColumn]!.includes('@')
  return first.every((cell) => cell.trim() !== '' && !/^[\d\s.,:/+-]*$|@/.test(cell))
}
