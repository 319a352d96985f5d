import { enclosures, type FileFormat, type Separator } from '../contract/schemas/import.ts'
import { emailIdentity } from '../values/email.ts'
import { readCells } from './csv-cells.ts'
import { recordFlags } from './record-scanner.ts'
import { scanSample, type Sample } from './sampled-records.ts'

/** Detects the separator and the enclosure of a sample in UTF-8. */
export interface SampleDialect {
  separator: Separator
  enclosure: FileFormat['csv_field_enclosure']
}

/** In the order in which they win a tie. */
const separators: readonly Separator[] = [',', ';', '\t', '|']

/** The bytes and records that are read with each separator and enclosure. */
const sampledBytes = 128 * 1024
const sampledRecords = 100

/** The cells of the first records of a UTF-8 sample. */
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
      const isMalformed = (flags & (recordFlags.irregular | recordFlags.unterminated)) !== 0
      if (!isMalformed && (flags & recordFlags.enclosed) !== 0) found.enclosed += 1
      const text = bytes.toString('utf8', start, end)
      found.cells.push(
        (flags & recordFlags.unterminated) !== 0
          ? [text]
          : readCells(text, { csv_field_separator: separator, csv_field_enclosure: enclosure }),
      )
    },
  })
  return found
}

export interface SampledCells {
  cells: string[][]
  /** The number of records with well-formed enclosed cells. */
  enclosed: number
}

/**
 * The separator and enclosure with the highest score. Cells that are emails count most, then an equal number of cells in
 * all records. Comma and double quote win a tie.
 */
export function detectDialect(
  sample: Sample,
  given: {
    separator: SampleDialect['separator'] | undefined
    enclosure: SampleDialect['enclosure'] | undefined
  },
): SampleDialect {
  let best: { dialect: SampleDialect; score: number } | undefined
  for (const separator of given.separator === undefined ? separators : [given.separator]) {
    for (const enclosure of given.enclosure === undefined ? enclosures : [given.enclosure]) {
      const dialect = { separator, enclosure }
      const found = firstRecords(sample, dialect)
      // An enclosure that encloses no cell is not one, whatever its score, unless it was given.
      if (given.enclosure === undefined && enclosure !== '"' && found.enclosed === 0) continue
      const score = tableScore(found)
      if (best === undefined || score > best.score + 1e-9) best = { dialect, score }
    }
  }
  return best?.dialect ?? { separator: ',', enclosure: '"' }
}

function tableScore({ cells, enclosed }: SampledCells): number {
  if (cells.length === 0) return 0
  const widths = new Map<number, number>()
  for (const { length } of cells) widths.set(length, (widths.get(length) ?? 0) + 1)
  const [width, records] = [...widths].reduce((a, b) => (b[1] > a[1] ? b : a))
  const withEmail = cells.filter((record) => record.some((cell) => isEmail(cell))).length
  const evenness = width === 1 ? 0 : records / cells.length
  return (2 * withEmail) / cells.length + evenness + (0.2 * enclosed) / cells.length
}

export const isEmail = (cell: string): boolean => emailIdentity(cell.trim()) !== null
