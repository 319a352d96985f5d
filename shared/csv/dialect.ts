import { enclosures, type Escape, type FileFormat, type Separator } from '../contract/schemas/import.ts'
import { emailIdentity } from '../values/email.ts'
import { cellText, readCells } from './csv-cells.ts'
import type { CsvDialect } from './csv-line.ts'
import { dialectBytes, recordFlags } from './record-scanner.ts'
import { scanSample, type Sample } from './sampled-records.ts'

/** Detects the separator and the enclosure of a sample in UTF-8. */
export interface SampleDialect {
  separator: Separator
  enclosure: FileFormat['csv_field_enclosure']
  escape: Escape | null
}

/** In the order in which they win a tie. */
const separators: readonly Separator[] = [',', ';', '\t', '|']

/** The bytes and records that are read with each separator and enclosure. */
const sampledBytes = 128 * 1024
const sampledRecords = 100

/** The cells of the first records of a UTF-8 sample. */
export function firstRecords(sample: Sample, { separator, enclosure, escape }: SampleDialect): SampledCells {
  const beginning = {
    bytes: sample.bytes.subarray(0, sampledBytes),
    isWhole: sample.isWhole && sample.bytes.length <= sampledBytes,
  }
  const found: SampledCells = { cells: [], enclosed: 0 }
  const dialect: CsvDialect = {
    csv_field_separator: separator,
    csv_field_enclosure: enclosure,
    csv_field_escape: escape,
  }
  scanSample(beginning, {
    dialect: dialectBytes(dialect),
    wantedColumn: 0,
    onRecord({ bytes, start, end, flags }) {
      if (found.cells.length === sampledRecords) return
      const isMalformed = (flags & (recordFlags.typed | recordFlags.unterminated)) !== 0
      if (!isMalformed && (flags & recordFlags.enclosed) !== 0) found.enclosed += 1
      const text = bytes.toString('utf8', start, end)
      found.cells.push((flags & recordFlags.unterminated) !== 0 ? [text] : readCells(text, dialect))
    },
  })
  return found
}

interface SampledCells {
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
  settings: {
    separator: SampleDialect['separator'] | undefined
    enclosure: SampleDialect['enclosure'] | undefined
    escape: SampleDialect['escape'] | undefined
  },
): SampleDialect {
  const escape = settings.escape ?? null
  let best: { dialect: SampleDialect; score: number } = {
    dialect: { separator: settings.separator ?? ',', enclosure: settings.enclosure ?? '"', escape },
    score: 0,
  }
  for (const separator of settings.separator === undefined ? separators : [settings.separator]) {
    for (const enclosure of settings.enclosure === undefined ? enclosures : [settings.enclosure]) {
      const dialect = { separator, enclosure, escape }
      const found = firstRecords(sample, dialect)
      // An enclosure that encloses no cell is not one, whatever its score, unless it was given.
      if (settings.enclosure === undefined && enclosure !== '"' && found.enclosed === 0) continue
      const score = tableScore(found)
      if (score > best.score) best = { dialect, score }
    }
  }
  const escaped = { ...best.dialect, escape: '\\' as const }
  return settings.escape === undefined && isEscaped(sample, best.dialect, escaped) ? escaped : best.dialect
}

/** Whether reading with the escape makes a better table, or an equal one that has the mark `\N` in a cell. */
function isEscaped(sample: Sample, dialect: SampleDialect, escaped: SampleDialect): boolean {
  if (!sample.bytes.subarray(0, sampledBytes).includes('\\')) return false
  const bare = firstRecords(sample, dialect)
  const [score, other] = [tableScore(bare), tableScore(firstRecords(sample, escaped))]
  const hasMark = bare.cells.some((record) => record.some((cell) => cell.trim() === '\\N'))
  return other > score || (other === score && hasMark)
}

/**
 * Points for an average record. They are counted in whole numbers, so that equally good tables have exactly equal
 * scores. The score of a file without records is NaN, which is higher than no other.
 */
function tableScore({ cells, enclosed }: SampledCells): number {
  const withEmail = cells.filter((record) => record.some((cell) => isEmail(cell))).length
  return (10 * withEmail + 5 * evenRecords(cells) + enclosed) / cells.length
}

/**
 * The number of records with the most usual number of cells; 0 where that is one. The first record decides between
 * numbers that are equally usual, because it may be a header.
 */
function evenRecords(cells: string[][]): number {
  const recordsByWidth = new Map<number, number>()
  for (const { length } of cells) recordsByWidth.set(length, (recordsByWidth.get(length) ?? 0) + 1)
  const [width, records] = [...recordsByWidth].reduce((a, b) => (b[1] > a[1] ? b : a), [0, 0])
  return width === 1 ? 0 : records
}

export const isEmail = (cell: string): boolean => emailIdentity(cellText(cell)) !== null
