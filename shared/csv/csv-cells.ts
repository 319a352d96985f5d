import { parse } from 'csv-parse/sync'
import type { CsvDialect } from './csv-line.ts'

/**
 * The cells of records whose borders are known. Three readers, by what a record asks for: one without an enclosure is
 * split; regularly enclosed ones with an enclosure within go to csv-parse, many at a time; the rest is read by the rules
 * of the contract, some of which csv-parse doesn't know (blanks or text after a closing enclosure).
 */

/** Cells of regularly enclosed records. Throws when csv-parse sees other borders, which would be a defect. */
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

/** Cells of any one record, by the rules alone. */
export function readCells(text: string, dialect: CsvDialect): string[] {
  const { csv_field_separator: separator, csv_field_enclosure: enclosure } = dialect
  const cells: string[] = []
  let at = 0
  for (;;) {
    const close = text[at] === enclosure ? closingEnclosure(text, at, enclosure) : -1
    const typedEnd = endOfCell(text, close === -1 ? at : close + 1, separator)
    const isEnclosed = close !== -1 && isBlank(text, close + 1, typedEnd)
    cells.push(
      isEnclosed
        ? text.slice(at + 1, close).replaceAll(enclosure + enclosure, enclosure)
        : text.slice(at, typedEnd),
    )
    if (typedEnd >= text.length) return cells
    at = typedEnd + 1
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
