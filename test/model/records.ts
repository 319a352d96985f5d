import type { ContentFormat } from '../../shared/contract/schemas/import.ts'

/**
 * From bytes to records (decisions 2.4). Bytes are read as characters of ISO-8859-1, one each. Everything that splits
 * a file is ASCII, and no byte of a longer UTF-8 sequence is.
 */
export interface RawRecord {
  /** The bytes of each cell, without enclosures, not trimmed. An unterminated record is one cell. */
  cells: string[]
  isUnterminated: boolean
  isTooLong: boolean
  /** All bytes of the record, without the line end. */
  bytes: string
  /** The bytes of each cell as typed. The last one of an unterminated record goes to the end of the line. */
  typedCells: string[]
  /** Number of the line on which it begins, from 1. */
  line: number
}

export type SplitFormat = Omit<ContentFormat, 'character_set'>
type Format = SplitFormat & { limits: Limits }

export interface SplitFile {
  /** Bytes of each cell. */
  header: string[] | null
  headerRecord: RawRecord | null
  records: RawRecord[]
}

interface Limits {
  recordBytes: number
  enclosedBytes: number
  enclosedLines: number
}

const limitsOfImports: Limits = { recordBytes: 1024 * 1024, enclosedBytes: 256 * 1024, enclosedLines: 1000 }

export function splitFile(text: string, fileFormat: SplitFormat, limits = limitsOfImports): SplitFile {
  const format = { ...fileFormat, limits }
  const records: RawRecord[] = []
  let at = 0
  let line = 1
  for (;;) {
    const from = at
    at = afterBlankLines(text, at, format)
    if (at >= text.length) break
    line += lineBreaks(text.slice(from, at))
    const { record, next } = readRecord(text, at, format)
    records.push({ ...record, line })
    line += lineBreaks(text.slice(at, next))
    at = next
  }
  const header = format.csv_has_headers ? records.shift() : undefined
  if (header === undefined) return { header: null, headerRecord: null, records }
  return { header: headerCells(header, format), headerRecord: header, records }
}

/** "One whose enclosure does not end is that line": this enclosure is a character like any other. */
function headerCells({ isUnterminated, cells, bytes }: RawRecord, format: Format): string[] {
  if (!isUnterminated) return cells
  const read: string[] = []
  for (let at = 0; at <= bytes.length;) {
    const cell = readCell(bytes, at, format)
    const { bytes: own, end } = cell === 'unterminated' ? typedCell(bytes, at, at, format) : cell
    read.push(own)
    at = end + 1
  }
  return read
}

/** "Lines that are empty or hold only blanks (spaces, and tabs unless they separate) are skipped and not counted." */
function afterBlankLines(text: string, from: number, format: Format): number {
  let at = from
  while (at < text.length) {
    const end = lineEnd(text, at)
    if (afterBlanks(text, at, format) < end) return at
    at = afterLineEnd(text, end)
  }
  return at
}

const isBlank = (character: string, format: Format): boolean =>
  character === ' ' || (character === '\t' && format.csv_field_separator !== '\t')

export const lineBreaks = (text: string): number => text.match(/\r\n|\r|\n/g)?.length ?? 0

const isLineEnd = (character: string | undefined): boolean => character === '\n' || character === '\r'

/** The end of the line that has `from` in it. */
function lineEnd(text: string, from: number): number {
  let at = from
  while (at < text.length && !isLineEnd(text[at])) at += 1
  return at
}

/** "CRLF, LF and CR each end a record, mixed as well." */
function afterLineEnd(text: string, end: number): number {
  if (end >= text.length) return end
  return text.startsWith('\r\n', end) ? end + 2 : end + 1
}

interface ReadRecord {
  record: Omit<RawRecord, 'line'>
  next: number
}

function readRecord(text: string, from: number, format: Format): ReadRecord {
  const cells: string[] = []
  const typedCells: string[] = []
  let at = from
  for (;;) {
    const cell = readCell(text, at, format)
    if (cell === 'unterminated') return unterminatedRecord(text, from, at, typedCells, format)
    cells.push(cell.bytes)
    typedCells.push(text.slice(at, cell.end))
    at = cell.end
    if (text[at] !== format.csv_field_separator) break
    at += 1
  }
  const bytes = text.slice(from, at)
  const isTooLong = bytes.length > format.limits.recordBytes
  return {
    record: { cells, isUnterminated: false, isTooLong, bytes, typedCells },
    next: afterLineEnd(text, at),
  }
}

/** "The record up to the end of the line where it opens is a failed one, and reading continues with the next line." */
function unterminatedRecord(
  text: string,
  from: number,
  openedAt: number,
  typedBefore: string[],
  format: Format,
): ReadRecord {
  const end = lineEnd(text, openedAt)
  const bytes = text.slice(from, end)
  return {
    record: {
      cells: [bytes],
      isUnterminated: true,
      isTooLong: bytes.length > format.limits.recordBytes,
      bytes,
      typedCells: [...typedBefore, text.slice(openedAt, end)],
    },
    next: afterLineEnd(text, end),
  }
}

/**
 * "An enclosure opens as the first character of a cell, blanks before it aside; anywhere else it is a plain character."
 */
function readCell(
  text: string,
  from: number,
  format: Format,
): { bytes: string; end: number } | 'unterminated' {
  const openedAt = afterBlanks(text, from, format)
  if (text[openedAt] !== format.csv_field_enclosure)
    return bareCell(typedCell(text, from, from, format), format)
  const closedAt = closingEnclosure(text, openedAt, format)
  if (closedAt === null) return 'unterminated'
  const at = afterBlanks(text, closedAt + 1, format)
  const isWhole = at >= text.length || isLineEnd(text[at]) || text[at] === format.csv_field_separator
  if (lineBreaks(text.slice(openedAt, closedAt)) > 0) {
    // "On a later line: the enclosure was never meant to span lines, and counts as one that finds no end." The blanks
    // are a part of what must end within 256 KiB.
    if (!isWhole || at - openedAt > format.limits.enclosedBytes + 1) return 'unterminated'
  }
  // "The cell is taken as typed, up to the next separator or line end, enclosures included."
  if (!isWhole) return typedCell(text, from, at, format)
  return { bytes: enclosedText(text.slice(openedAt + 1, closedAt), format), end: at }
}

function afterBlanks(text: string, from: number, format: Format): number {
  let at = from
  while (at < text.length && isBlank(text[at]!, format)) at += 1
  return at
}

/** "A bare cell `\N` is blank." */
const bareCell = (cell: { bytes: string; end: number }, { csv_field_escape: escape }: Format) =>
  escape === '\\' && cell.bytes.trim() === '\\N' ? { ...cell, bytes: '' } : cell

/** "`\"` and `\\` stand for the second character, anything else after a backslash stays with it." */
function enclosedText(text: string, format: Format): string {
  let plain = ''
  for (let at = 0; at < text.length; at += 1) {
    if (isPair(text, at, format)) at += 1
    plain += text[at]!
  }
  return plain
}

/** Two characters that stand for the second one. */
function isPair(text: string, at: number, format: Format): boolean {
  const { csv_field_enclosure: enclosure, csv_field_escape: escape } = format
  const isDoubled = text[at] === enclosure && text[at + 1] === enclosure
  return isDoubled || (escape === '\\' && text[at] === '\\' && ['\\', enclosure].includes(text[at + 1]!))
}

/** The cell from `from` to the first separator or line end that isn't before `scanFrom`. */
function typedCell(text: string, from: number, scanFrom: number, format: Format) {
  let end = scanFrom
  while (end < text.length && !isLineEnd(text[end]) && text[end] !== format.csv_field_separator) end += 1
  return { bytes: text.slice(from, end), end }
}

/** "Doubled inside, it stands for one"; null: "no end within 256 KiB, 1,000 lines or the file". */
function closingEnclosure(text: string, openedAt: number, format: Format): number | null {
  let lines = 1
  let at = openedAt + 1
  while (at < text.length) {
    if (at - openedAt > format.limits.enclosedBytes || lines > format.limits.enclosedLines) return null
    if (isPair(text, at, format)) at += 2
    else if (text[at] === format.csv_field_enclosure) return at
    else if (isLineEnd(text[at])) {
      lines += 1
      at = afterLineEnd(text, at)
    } else at += 1
  }
  return null
}
