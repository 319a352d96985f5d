import { detectDialect, firstRecords, isEmail } from '../../../shared/csv/dialect.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'
import { columnWordTest, comparedName, speaksOfEmail } from './column-words.ts'
import type { InspectionRequest } from './schemas.ts'

/** Whether the first record is a header: by its words, or because it differs from the other records. */
export function detectHeader([first, ...others]: string[][], fieldNames: readonly string[]): boolean {
  if (first === undefined) return true
  if (first.some((cell) => isEmail(cell))) return false
  if (first.some(columnWordTest(fieldNames))) return true
  const emailColumn = first.findIndex(
    (_, i) => others.filter((record) => isEmail(record[i] ?? '')).length * 2 > others.length,
  )
  if (others.length > 0 && emailColumn !== -1) return first[emailColumn]?.includes('@') !== true
  return first.every((cell) => cell.trim() !== '' && !/^[\d\s.,:/+-]*$|@/.test(cell))
}

/** Lines that may come before a header, with it. */
const searchedLines = 30

/**
 * The number of lines before the table: notes and titles. The header is the first line that has an email column and as
 * many cells as most records behind it; 0 without such a line.
 */
export function linesBeforeHeader(
  { bytes, isWhole }: Sample,
  format: InspectionRequest['file_format'],
): number {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure, csv_field_escape: escape } = format
  const settings = { separator: separator === 'auto' ? undefined : separator, enclosure, escape }
  let at = 0
  for (let lines = 0; lines < searchedLines && at < bytes.length; lines += 1) {
    const rest = { bytes: bytes.subarray(at), isWhole }
    const text = rest.bytes.toString('utf8', 0, maxHeaderBytes)
    const [line = ''] = /^[^\r\n]*(?:\r\n|\n|\r|$)/.exec(text) ?? []
    if (line.trim() !== '') {
      const [header = [], ...records] = firstRecords(rest, detectDialect(rest, settings)).cells
      const alike = records.filter(({ length }) => length === header.length)
      const hasAddress = header.some((cell) => cell.includes('@'))
      if (namesEmail(header) && !hasAddress && alike.length * 2 > records.length) return lines
    }
    at += Buffer.byteLength(line)
  }
  return 0
}

const maxHeaderBytes = 64 * 1024

/** Whether a cell is the name of an email column. In a single cell only a known name counts, no sentence. */
const namesEmail = (cells: readonly string[]): boolean =>
  cells
    .map(comparedName)
    .some((name) => name.builtIns.includes('email') || (cells.length > 1 && speaksOfEmail(name)))
