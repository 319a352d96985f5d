import type { FileFormat } from '../contract/schemas/import.ts'

export type CsvDialect = Pick<FileFormat, 'csv_field_separator' | 'csv_field_enclosure'>

/** A CSV line with enclosures only where they are needed to read the same cells again. Without its line end. */
export function writeLine(cells: readonly string[], dialect: CsvDialect): string {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure } = dialect
  const line = cells
    .map((cell) => (needsEnclosure(cell, separator, enclosure) ? enclose(cell, enclosure) : cell))
    .join(separator)
  // A line without any character but tabs between its cells would be skipped when it is read again.
  return /^\t*$/.test(line) ? enclosure + enclosure + line : line
}

/**
 * A cell that a spreadsheet would run as a formula, with a `'` before it, which makes it text. The signs are ASCII's and
 * the full-width ones, which Excel takes for them in East Asian locales; blanks before a sign don't stop every program.
 */
export const withoutFormula = (cell: string): string =>
  /^(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/.test(cell) ? `'${cell}` : cell

/**
 * As RFC 4180 has it. Many readers also drop the blanks at a bare cell's ends, and a byte order mark at a file's
 * beginning, which `trim` takes too.
 */
function needsEnclosure(cell: string, separator: string, enclosure: string): boolean {
  return (
    cell.includes(enclosure) ||
    cell.includes(separator) ||
    cell.includes('\n') ||
    cell.includes('\r') ||
    cell.trim() !== cell
  )
}

const enclose = (cell: string, enclosure: string): string =>
  `${enclosure}${cell.replaceAll(enclosure, enclosure + enclosure)}${enclosure}`
