import { parse } from 'csv-parse/sync'
import { isBlankMark, type CsvDialect } from './csv-line.ts'

/**
 * Parses the cells of records whose borders are known. There are three ways. A record without an enclosure is split at
 * its separators. Regular records with a doubled enclosure go to csv-parse, many at a time. All others are read by
 * `readCells`, because csv-parse doesn't know some of the contract's rules (text outside an enclosure, the escape).
 */

/** Throws when csv-parse finds other record borders than the scanner, which would be a defect. */
export function parseEnclosedRecords(texts: string[], dialect: CsvDialect): string[][] {
  const records: string[][] = parse(texts.join('\n'), {
    delimiter: dialect.csv_field_separator,
    quote: dialect.csv_field_enclosure,
    escape: dialect.csv_field_enclosure,
    record_delimiter: '\n',
    relax_quotes: true,
    relax_column_count: true,
  })
  if (records.length !== texts.length)
    throw new Error(`csv-parse reads ${records.length} records where the scanner found ${texts.length}`)
  return records
}

const protectedText = /^="((?:[^"]|"")*)"$/

/** A cell's trimmed text. `="text"`, which keeps spreadsheets from reading it as a number, is that text. */
export function cellText(cell: string): string {
  const text = cell.trim()
  if (text.charCodeAt(0) !== 0x3d) return text
  return protectedText.exec(text)?.[1]?.replaceAll('""', '"').trim() ?? text
}

/** Parses the cells of any record by all rules of the contract. */
export function readCells(text: string, dialect: CsvDialect): string[] {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure } = dialect
  const cells: string[] = []
  let at = 0
  for (;;) {
    const open = afterBlanks(text, at, separator)
    const close = text[open] === enclosure ? closingEnclosure(text, open, dialect) : -1
    const cellEnd = endOfCell(text, close === -1 ? at : close + 1, separator)
    const isEnclosed = close !== -1 && afterBlanks(text, close + 1, separator) === cellEnd
    cells.push(
      isEnclosed
        ? unescape(text.slice(open + 1, close), dialect)
        : bareCell(text.slice(at, cellEnd), dialect),
    )
    if (cellEnd >= text.length) return cells
    at = cellEnd + 1
  }
}

/** The text of a cell that isn't enclosed. */
export const bareCell = (cell: string, dialect: CsvDialect): string =>
  isBlankMark(cell, dialect) ? '' : cell

function closingEnclosure(
  text: string,
  open: number,
  { csv_field_enclosure: enclosure, csv_field_escape: escape }: CsvDialect,
): number {
  let from = open + 1
  for (;;) {
    const at = text.indexOf(enclosure, from)
    if (at === -1) return -1
    if (escape && isEscaped(text, from, at, escape)) from = at + 1
    else if (text[at + 1] === enclosure) from = at + 2
    else return at
  }
}

/** Whether an odd number of escapes, none of them before `from`, precedes `at`. */
function isEscaped(text: string, from: number, at: number, escape: string): boolean {
  let first = at
  while (first > from && text[first - 1] === escape) first -= 1
  return (at - first) % 2 === 1
}

/** A doubled enclosure is one. So is one after the escape, which also stands before itself. */
const unescape = (text: string, { csv_field_enclosure: enclosure, csv_field_escape: escape }: CsvDialect) =>
  escape
    ? text.replaceAll(escapedPairs[enclosure], (pair) => pair.slice(1))
    : text.replaceAll(enclosure + enclosure, enclosure)

const escapedPairs = { '"': /\\["\\]|""/g, "'": /\\['\\]|''/g } as const

function afterBlanks(text: string, from: number, separator: string): number {
  let at = from
  while (at < text.length && text[at] !== separator && (text[at] === ' ' || text[at] === '\t')) at += 1
  return at
}

function endOfCell(text: string, from: number, separator: string): number {
  const end = text.indexOf(separator, from)
  return end === -1 ? text.length : end
}
