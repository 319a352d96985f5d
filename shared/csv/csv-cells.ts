import type { ContentFormat } from '../contract/schemas/import.ts'
import { TextBytes } from '../values/text-bytes.ts'
import { isTranscoded, recordDecoder, type RecordDecoder } from './character-set.ts'
import type { CsvDialect } from './csv-line.ts'
import { dialectBytes, recordFlags, type Dialect } from './record-scanner.ts'

/**
 * The cells of one record as ranges of its bytes in UTF-8. Most are copied from there into a document or a log, and only
 * few become strings. Enclosed cells and other character sets are read in a copy, which the next record overwrites.
 */
export class RecordCells {
  count = 0
  /** False where bytes are undecodable; cells have U+FFFD for them. */
  isValid = true
  hasNul = false

  readonly #dialect: Dialect
  readonly #decoder: RecordDecoder
  readonly #isUtf8: boolean
  #copy: Buffer = Buffer.allocUnsafeSlow(1024)
  #bytes: Buffer = this.#copy
  #isAscii = true
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  readonly #text = new TextBytes()

  constructor(format: CsvDialect & Pick<ContentFormat, 'character_set'>) {
    this.#dialect = dialectBytes(format)
    this.#decoder = recordDecoder(format.character_set)
    this.#isUtf8 = format.character_set === 'utf-8' || isTranscoded(format.character_set)
  }

  /** Reads a record with these `recordFlags`. */
  read(bytes: Buffer, start: number, end: number, flags: number): this {
    const isInPlace = (flags & recordFlags.enclosed) === 0
    if (isInPlace) this.#split(flags, bytes, start, end)
    const isAscii = isInPlace && this.#isAscii
    this.isValid = isAscii || this.#decoder.isValid(bytes, start, end)
    if (isAscii || (isInPlace && this.#isUtf8 && this.isValid)) return this
    // A character of one byte may become three.
    const maxLength = 3 * (end - start)
    if (maxLength > this.#copy.length) this.#copy = Buffer.allocUnsafeSlow(2 * maxLength)
    this.#split(flags, this.#copy, 0, this.#copy.write(this.#decoder.decode(bytes, start, end)))
    return this
  }

  /** A cell's text without blanks at its ends, which the next call overwrites. A missing cell is blank. */
  trimmed(i: number): TextBytes {
    if (i >= this.count) return this.#text.set(this.#bytes, 0, 0)
    return this.#text.set(this.#bytes, this.#starts[i]!, this.#ends[i]!).trim()
  }

  /** The same; `="text"`, which keeps spreadsheets from reading it as a number, is that text. */
  text(i: number): TextBytes {
    const text = this.trimmed(i)
    if (text.length === 0 || text.bytes[text.start] !== EQUALS) return text
    const unprotected = Buffer.from(cellText(text.toString()))
    return text.set(unprotected, 0, unprotected.length)
  }

  /** A cell as typed; null for a missing one. */
  string(i: number): string | null {
    return i < this.count ? this.#bytes.toString('utf8', this.#starts[i], this.#ends[i]) : null
  }

  /** Cells as typed, from the given one on. */
  strings(from = 0): string[] {
    return Array.from({ length: this.count - from }, (_, i) => this.string(from + i)!)
  }

  /** By all rules of the contract. An unterminated record is one cell. */
  #split(flags: number, bytes: Buffer, start: number, end: number): void {
    const isWhole = (flags & recordFlags.unterminated) !== 0
    const hasEnclosures = !isWhole && (flags & recordFlags.enclosed) !== 0
    const separator = isWhole ? -1 : this.#dialect.separator
    this.#bytes = bytes
    this.count = 0
    this.hasNul = false
    let seen = 0
    for (let cell = start, at = start; cell <= end; cell = at + 1) {
      const open = hasEnclosures ? this.#afterBlanks(cell, end) : end
      const close = open < end && bytes[open] === this.#dialect.enclosure ? this.#closing(open, end) : -1
      for (at = cell; at < end; at += 1) {
        const byte = bytes[at]!
        if (byte === separator && at > close) break
        seen |= byte
        if (byte === 0) this.hasNul = true
      }
      if (close !== -1 && this.#afterBlanks(close + 1, at) === at)
        this.#add(open + 1, this.#unescape(open + 1, close))
      else this.#add(cell, this.#isBlankMark(cell, at) ? cell : at)
    }
    this.#isAscii = seen < 0x80
  }

  #afterBlanks(from: number, end: number): number {
    const { separator } = this.#dialect
    let at = from
    while (at < end && this.#bytes[at] !== separator && isBlank(this.#bytes[at]!)) at += 1
    return at
  }

  /** -1 for none. */
  #closing(open: number, end: number): number {
    for (let at = open + 1; at < end; at += 1)
      if (this.#isPair(at, end)) at += 1
      else if (this.#bytes[at] === this.#dialect.enclosure) return at
    return -1
  }

  /** Whether two bytes stand for the second one: a doubled enclosure, or an enclosure or escape after the escape. */
  #isPair(at: number, end: number): boolean {
    const { enclosure, escape } = this.#dialect
    const byte = this.#bytes[at]
    if ((byte !== enclosure && byte !== escape) || at + 1 === end) return false
    const next = this.#bytes[at + 1]
    return next === enclosure || (next === escape && byte === escape)
  }

  /** Moves the text within an enclosure together where it has pairs, and returns its end. */
  #unescape(start: number, end: number): number {
    let to = start
    for (let at = start; at < end; at += 1, to += 1) {
      if (this.#isPair(at, end)) at += 1
      this.#bytes[to] = this.#bytes[at]!
    }
    return to
  }

  /** With an escape, a bare cell `\N` is blank. */
  #isBlankMark(start: number, end: number): boolean {
    const { escape } = this.#dialect
    if (escape === null) return false
    const { bytes, start: at, length } = this.#text.set(this.#bytes, start, end).trim()
    return length === 2 && bytes[at] === escape && bytes[at + 1] === CAPITAL_N
  }

  #add(start: number, end: number): void {
    this.#starts[this.count] = start
    this.#ends[this.count] = end
    this.count += 1
  }
}

const EQUALS = 0x3d
const CAPITAL_N = 0x4e

/** A space or a tab. */
const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x09

/** The cells of a record as strings. */
export function readCells(text: string, dialect: CsvDialect): string[] {
  const bytes = Buffer.from(text)
  const cells = new RecordCells({ ...dialect, character_set: 'utf-8' })
  return cells.read(bytes, 0, bytes.length, recordFlags.enclosed).strings()
}

const protectedText = /^="((?:[^"]|"")*)"$/

/** A cell's trimmed text. `="text"`, which keeps spreadsheets from reading it as a number, is that text. */
export function cellText(cell: string): string {
  const text = cell.trim()
  if (text.charCodeAt(0) !== EQUALS) return text
  return protectedText.exec(text)?.[1]?.replaceAll('""', '"').trim() ?? text
}
