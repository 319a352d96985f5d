import type { ContentFormat } from '../contract/schemas/import.ts'

export type CsvDialect = Pick<
  ContentFormat,
  'csv_field_separator' | 'csv_field_enclosure' | 'csv_field_escape'
>

/**
 * Formats a CSV line without its line end. Cells are enclosed only where RFC 4180, a blank at either end or the mark
 * `\N` needs it.
 */
export function writeLine(cells: readonly string[], dialect: CsvDialect): string {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure } = dialect
  const line = cells
    .map((cell) =>
      needsEnclosure(cell, separator, enclosure) || isBlankMark(cell, dialect)
        ? enclose(cell, dialect)
        : cell,
    )
    .join(separator)
  // Readers skip empty lines.
  return line === '' ? enclosure + enclosure : line
}

/**
 * Puts a `'` before a cell that a spreadsheet would run as a formula, which makes the cell text. Full-width signs
 * count too, because Excel accepts them in East Asian locales. So do signs after blanks, which some programs skip.
 */
export const withoutFormula = (cell: string): string =>
  /^(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/.test(cell) ? `'${cell}` : cell

/** RFC 4180, and blanks at either end, because many readers drop them from a bare cell. */
function needsEnclosure(cell: string, separator: string, enclosure: string): boolean {
  return (
    cell.includes(enclosure) ||
    cell.includes(separator) ||
    cell.includes('\n') ||
    cell.includes('\r') ||
    isBlank(cell.charCodeAt(0)) ||
    isBlank(cell.charCodeAt(cell.length - 1))
  )
}

/** A space or a tab. */
const isBlank = (unit: number): boolean => unit === 0x20 || unit === 0x09

function enclose(
  cell: string,
  { csv_field_enclosure: enclosure, csv_field_escape: escape }: CsvDialect,
): string {
  const text = cell.replaceAll(enclosure, enclosure + enclosure)
  return enclosure + (escape !== null ? text.replaceAll(escape, escape + escape) : text) + enclosure
}

/** With an escape, a bare cell `\N` is blank. */
const isBlankMark = (cell: string, { csv_field_escape: escape }: CsvDialect): boolean =>
  escape !== null && cell.trim() === `${escape}N`
