import { parse } from 'csv-parse/sync'
import type { CsvDialect } from './csv-line.ts'

/**
 * Parses the cells of records whose borders are known. There are three ways. A record without an enclosure is split at
 * its separators. Regular records with a doubled enclosure go to csv-parse, many at a time. All others are read by
 * `readCells`, because csv-parse doesn't know some of the contract's rules (blanks or text after a closing enclosure).
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

/** Parses the cells of any record by all rules of the contract. */
export function readCells(text: string, dialect: CsvDialect): string[] {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure } = dialect
  const cells: string[] = []
  let at = 0
  for (;;) {
    const close = text[at] === enclosure ? closingEnclosure(text, at, enclosure) : -1
    const cellEnd = endOfCell(text, close === -1 ? at : close + 1, separator)
    const isEnclosed = close !== -1 && isBlank(text, close + 1, cellEnd)
    cells.push(
      isEnclosed
        ? text.slice(at + 1, close).replaceAll(enclosure + enclosure, enclosure)
        : text.slice(at, cellEnd),
    )
    if (cellEnd >= text.length) return cells
    at = cellEnd + 1
  }
}

function closingEnclosure(text: string, open: number, enclosure: string): number {
  for (let at = text.indexOf(enclosure, open + 1); at !== -1; at = text.indexOf(enclosure, at + 2)) {
    if (text[at + 1] !== enclosure) return at
  }
  return -1
}

function endOfCell(text: string, from: number, separator: string): number {
  const end = text.indexOf(separator, from)
  return end === -1 ? text.length : end
}

function isBlank(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit !== 0x20 && unit !== 0x09) return false
  }
  return true
}
