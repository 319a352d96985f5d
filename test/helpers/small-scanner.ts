import assert from 'node:assert/strict'
import { dialectBytes, importLimits, RecordScanner } from '../../shared/csv/record-scanner.ts'
import type { ContentFormat } from '../../shared/contract/schemas/import.ts'

/** A scanner with small limits meets in files of some bytes what imports meet in files of megabytes. */
export const limits = {
  maxRecordBytes: 32,
  maxEnclosureBytes: 8,
  maxEnclosureLines: 3,
  maxIdentityBytes: 16,
  firstWindow: 4,
}

/** The limits of imports. Half a megabyte for each of thousands of short texts would take most of a test's time. */
export const limitsOf = (text: string): typeof importLimits =>
  text.length < 1_024 ? { ...importLimits, firstWindow: 1_024 } : importLimits

export interface Found {
  bytes: string
  line: number
  lines: number
  flags: number
  longCell: string | null
}

export function makeScanner(format: ContentFormat, wantedColumn: number, skippedLines?: number) {
  const found: Found[] = []
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn,
    limits,
    ...(skippedLines === undefined ? {} : { skippedLines }),
    onRecord: ({ bytes, start, end, line, lines, flags, longCell }) => {
      const cell = longCell?.toString('latin1') ?? null
      found.push({ bytes: bytes.toString('latin1', start, end), line, lines, flags, longCell: cell })
    },
  })
  return { scanner, found }
}

/** Gives a text to a scanner in slices of `step` bytes, as the blocks of a file come. */
export function feed(scanner: RecordScanner, text: string, step: number, behind = ','): void {
  const file = Buffer.from(text, 'latin1')
  for (let at = 0; at < file.length;) {
    const space = scanner.space()
    assert.ok(space.length > 0 && space.buffer.byteLength <= 4 * (limits.maxRecordBytes + 1))
    const copied = file.copy(space, 0, at, at + step)
    // Bytes of the window that aren't the file's must not be read.
    space.fill(behind, copied)
    scanner.advance(copied)
    at += copied
  }
}

export function scan(text: string, format: ContentFormat, wantedColumn: number, step: number): Found[] {
  const { scanner, found } = makeScanner(format, wantedColumn)
  feed(scanner, text, step, format.csv_field_separator)
  scanner.end()
  return found
}
