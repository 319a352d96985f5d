import type { CsvDialect } from './csv-line.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'

/**
 * Finds the records of a CSV file in its bytes, without decoding them, in one pass and with constant memory.
 *
 * The rules say where a record ends; its cells are read later:
 * - CRLF, LF and CR end a record. An empty or blank line is not a record.
 * - An enclosure opens only as the first byte of a cell; blanks before it don't count. A doubled enclosure inside stands
 *   for one, and so does one behind the escape. After the closing enclosure, blanks up to the separator are ignored.
 *   Other text on the line on which the enclosure opened makes the cell count as typed, up to the next separator or line
 *   end ("typed").
 * - An enclosure that doesn't close within 256 KiB, 1,000 lines or the file, or has other text behind its close on a
 *   later line, ends the record with the line on which it opens ("unterminated"). Scanning resumes with the next line.
 * - A record of more than 1 MiB is cut there, at the end of a cell ("too long"). Its identity is read where it ends
 *   within the first 64 KiB.
 *
 * The scan skips bytes with indexOf: a record without an enclosure costs one search for its line end. The search for
 * the next enclosure serves all records before that enclosure. Counting quotes would be shorter and wrong, because one
 * stray `12"` would move all later borders.
 */

export interface Dialect {
  /** Byte values. */
  separator: number
  enclosure: number
  /** Null: an enclosure is escaped only by another one. */
  escape: number | null
}

export const dialectBytes = (format: CsvDialect): Dialect => ({
  separator: format.csv_field_separator.charCodeAt(0),
  enclosure: format.csv_field_enclosure.charCodeAt(0),
  escape: format.csv_field_escape?.charCodeAt(0) ?? null,
})

export const recordFlags = {
  /** At least one cell is enclosed. */
  enclosed: 1,
  /** A cell has text or blanks outside its enclosure. */
  irregular: 2,
  unterminated: 4,
  tooLong: 8,
  /** A cell has text after its closing enclosure. Not set in too long records. */
  typed: 16,
  /** A backslash that is no escape precedes an enclosure. */
  backslash: 32,
} as const

/** The position of a record in `bytes`; valid only during the call of `onRecord`. */
export interface ScannedRecord {
  bytes: Buffer
  start: number
  end: number
  /** Physical line of its first byte, from 1. */
  line: number
  /** Number of physical lines. */
  lines: number
  flags: number
  /** Raw cell of `wantedColumn` in a too long record; null when the record has none or the cell is too long itself. */
  longCell: Buffer | null
}

/** The limits of imports. Tests set small ones, so that short files reach them. */
export const importLimits = {
  maxRecordBytes: binaryMegabyte,
  maxEnclosureBytes: 256 * 1024,
  maxEnclosureLines: 1_000,
  /** The beginning of a too long record in which its identity must end. */
  maxIdentityBytes: 64 * 1024,
  /**
   * The window doubles when more than half of it is waiting for further bytes. That is a record without an end or less,
   * so that no window is longer than about four of the longest records.
   */
  firstWindow: 512 * 1024,
}

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const TAB = 0x09
const BACKSLASH = 0x5c

/** In place of a position: further bytes decide it. */
const needMore = -1
/** In place of a next position: it must be searched for. */
const unknown = -1

/** State of a too long record whose end is not found yet. */
interface LongRecord {
  line: number
  flags: number
  kept: Buffer[]
  keptLength: number
  column: number
  /** Bytes of the record that have left the window. */
  passed: number
  /** The scan is in a cell whose beginning has left the window. */
  isCellCut: boolean
  /** The cell has no enclosure, or one that is closed: it ends at the next separator or line end. */
  isCellPlain: boolean
  /** Its enclosure doesn't close, so that only a line end ends the record. */
  toLineEnd: boolean
  cell: Buffer | null
}

/**
 * Push parser: callers write bytes into `space` and call `advance`; each record goes to `onRecord`. It never throws.
 */
export class RecordScanner {
  readonly #separator: number
  readonly #enclosure: number
  readonly #escape: number | null
  /** Besides the space. A tab that separates is none. */
  readonly #otherBlank: number
  readonly #wantedColumn: number
  readonly #onRecord: (record: ScannedRecord) => void
  readonly #limits: typeof importLimits

  #window: Buffer
  /** The bytes [from, to) of the window are not scanned yet. */
  #from = 0
  #to = 0
  #atEnd = false
  #line = 1
  #long: LongRecord | null = null

  /** Positions of the next line feed, carriage return and enclosure; `#to` means there is none. */
  #nextLf = unknown
  #nextCr = unknown
  #nextEnclosure = unknown

  /** Results of scanning one record, besides its end. */
  #flags = 0
  #breaks = 0
  #next = 0
  /** The enclosed text of a cell of a too long record, in which the cell must not be cut. */
  #enclosedFrom = 0
  #enclosedTo = 0

  readonly #record: ScannedRecord

  /**
   * `wantedColumn` is the index of the cell that `longCell` gets in a too long record; `skippedLines` come before the
   * first byte.
   */
  constructor(options: {
    dialect: Dialect
    wantedColumn: number
    onRecord: (record: ScannedRecord) => void
    skippedLines?: number
    limits?: typeof importLimits
  }) {
    this.#separator = options.dialect.separator
    this.#enclosure = options.dialect.enclosure
    this.#escape = options.dialect.escape
    this.#otherBlank = this.#separator === TAB ? SPACE : TAB
    this.#wantedColumn = options.wantedColumn
    this.#onRecord = options.onRecord
    this.#line += options.skippedLines ?? 0
    this.#limits = options.limits ?? importLimits
    this.#window = Buffer.allocUnsafeSlow(this.#limits.firstWindow)
    this.#record = { bytes: this.#window, start: 0, end: 0, line: 0, lines: 0, flags: 0, longCell: null }
  }

  /** Returns the buffer for the file's next bytes; the caller writes them and calls `advance` with their number. */
  space(): Buffer {
    const rest = this.#to - this.#from
    const isTight = rest * 2 > this.#window.length
    const target = isTight ? Buffer.allocUnsafeSlow(this.#window.length * 2) : this.#window
    this.#window.copy(target, 0, this.#from, this.#to)
    this.#window = this.#record.bytes = target
    this.#to = rest
    this.#from = 0
    return this.#window.subarray(this.#to)
  }

  /** Scans the bytes written into `space()`. */
  advance(length: number): void {
    this.#to += length
    this.#scan()
  }

  /** Scans the rest at the end of the file. */
  end(): void {
    this.#atEnd = true
    this.#scan()
  }

  #scan(): void {
    const { maxRecordBytes } = this.#limits
    this.#resetNext()
    for (;;) {
      if (this.#long !== null) {
        if (!this.#continueLongRecord(this.#long)) return
        continue
      }
      if (!this.#skipBlankLines()) return
      const start = this.#from
      const end = this.#endOfRecord(start)
      if (end !== needMore && end - start <= maxRecordBytes) {
        this.#emit(start, end, this.#flags)
      } else if (end !== needMore || this.#to - start > maxRecordBytes + 1) {
        this.#long = {
          line: this.#line,
          flags: recordFlags.tooLong,
          kept: [],
          keptLength: 0,
          column: 0,
          passed: 0,
          isCellCut: false,
          isCellPlain: false,
          toLineEnd: false,
          cell: null,
        }
        this.#resetNext()
      } else {
        return
      }
    }
  }

  #emit(start: number, end: number, flags: number): void {
    const record = this.#record
    record.start = start
    record.end = end
    record.line = this.#line
    record.lines = this.#breaks + 1
    record.flags = flags
    this.#line += record.lines
    this.#from = this.#next
    this.#onRecord(record)
  }

  /** Moves to the first byte of the next record; false when that byte is not in the window yet. */
  #skipBlankLines(): boolean {
    const bytes = this.#window
    const to = this.#to
    for (;;) {
      const at = this.#afterBlanks(this.#from)
      if (at === to) {
        // A blank line of any length takes little memory: only its last blanks stay, one more than a record may have,
        // because they begin a record when it turns out not to be blank.
        this.#from = this.#atEnd ? to : Math.max(this.#from, to - this.#limits.maxRecordBytes - 1)
        return false
      }
      const byte = bytes[at]
      if (byte !== LF && byte !== CR) return true
      const next = this.#afterLineEnd(at)
      if (next === needMore) return false
      this.#from = next
      this.#line += 1
    }
  }

  /** The position of the first byte at or after `at` that is no blank, or `#to`. */
  #afterBlanks(from: number): number {
    const bytes = this.#window
    let at = from
    while (at < this.#to && (bytes[at] === SPACE || bytes[at] === this.#otherBlank)) at += 1
    return at
  }

  /**
   * The position after the line end at `at`. It is unknown for a CR at the end of the window, which an LF may follow.
   */
  #afterLineEnd(at: number): number {
    if (this.#window[at] === LF) return at + 1
    if (at + 1 < this.#to) return this.#window[at + 1] === LF ? at + 2 : at + 1
    return this.#atEnd ? at + 1 : needMore
  }

  /** Must be called before the scan moves back, because the next positions are valid only from its position on. */
  #resetNext(): void {
    this.#nextLf = this.#nextCr = this.#nextEnclosure = unknown
  }

  /** Position of the first line end at or after `at`, or `#to`. */
  #lineEnd(at: number): number {
    if (this.#nextLf < at) this.#nextLf = this.#find(LF, at)
    if (this.#nextCr < at) this.#nextCr = this.#find(CR, at)
    return this.#nextLf < this.#nextCr ? this.#nextLf : this.#nextCr
  }

  #find(byte: number, at: number): number {
    const found = this.#window.indexOf(byte, at)
    return found === -1 || found >= this.#to ? this.#to : found
  }

  /** The end of the record at `start`, without its line end. Sets `#flags`, `#breaks` and `#next`. */
  #endOfRecord(start: number): number {
    const bytes = this.#window
    this.#flags = 0
    this.#breaks = 0
    let at = start
    /** Where a cell begins, until its first enclosure is passed. */
    let cell = start
    for (;;) {
      const lineEnd = this.#lineEnd(at)
      if (this.#nextEnclosure < at) this.#nextEnclosure = this.#find(this.#enclosure, at)
      const enclosure = this.#nextEnclosure
      if (enclosure >= lineEnd) return this.#finish(lineEnd)

      let before = enclosure - 1
      while (before >= at && (bytes[before] === SPACE || bytes[before] === this.#otherBlank)) before -= 1
      const opens = before < at ? cell === at : bytes[before] === this.#separator
      cell = unknown
      if (!opens) {
        this.#noticeBackslash(enclosure)
        at = enclosure + 1
        continue
      }
      const close = this.#closing(enclosure)
      if (close === needMore) return needMore
      if (close === this.#to) {
        this.#flags |= recordFlags.unterminated
        this.#resetNext()
        return this.#finish(this.#lineEnd(enclosure))
      }
      this.#flags |= recordFlags.enclosed
      if (before !== enclosure - 1) this.#flags |= recordFlags.irregular
      at = close + 1
      if (at === this.#to) return this.#finish(at)
      if (bytes[at] === this.#separator) at = cell = at + 1
      else if (bytes[at] !== LF && bytes[at] !== CR) {
        this.#flags |= recordFlags.irregular
        if (!this.#isEndOfCell(this.#afterBlanks(at))) this.#flags |= recordFlags.typed
      }
    }
  }

  #isEndOfCell(at: number): boolean {
    const byte = this.#window[at]
    return at === this.#to || byte === this.#separator || byte === LF || byte === CR
  }

  #noticeBackslash(enclosure: number): void {
    if (this.#escape === null && this.#window[enclosure - 1] === BACKSLASH)
      this.#flags |= recordFlags.backslash
  }

  #finish(end: number): number {
    if (end < this.#to) {
      this.#next = this.#afterLineEnd(end)
      return this.#next === needMore ? needMore : end
    }
    this.#next = end
    return this.#atEnd ? end : needMore
  }

  /**
   * Position of the enclosure that closes the one at `open`; `#to` when none does within the limits, or text follows it
   * on a later line. Adds the line breaks between them to `#breaks`.
   */
  #closing(open: number): number {
    const bytes = this.#window
    const limit = open + this.#limits.maxEnclosureBytes
    let at = open + 1
    for (;;) {
      const found = this.#find(this.#enclosure, at)
      if (found > limit) return this.#to
      if (found === this.#to) return this.#atEnd ? this.#to : needMore
      if (this.#escape !== null && this.#isEscaped(at, found)) {
        at = found + 1
        continue
      }
      if (found + 1 === this.#to && !this.#atEnd) return needMore
      this.#noticeBackslash(found)
      if (found + 1 < this.#to && bytes[found + 1] === this.#enclosure) {
        at = found + 2
        continue
      }
      const breaks = this.#lineBreaks(open, found)
      if (breaks >= this.#limits.maxEnclosureLines) return this.#to
      if (breaks > 0) {
        const behind = this.#afterBlanks(found + 1)
        // The blanks are bounded as the enclosure is, so that a window needn't hold more.
        if (behind > limit + 1) return this.#to
        if (behind === this.#to && !this.#atEnd) return needMore
        if (!this.#isEndOfCell(behind)) return this.#to
      }
      this.#breaks += breaks
      return found
    }
  }

  /** Whether an odd number of escapes, none of them before `from`, precedes `at`. */
  #isEscaped(from: number, at: number): boolean {
    let first = at
    while (first > from && this.#window[first - 1] === this.#escape) first -= 1
    return (at - first) % 2 === 1
  }

  #lineBreaks(from: number, to: number): number {
    const bytes = this.#window
    let breaks = 0
    for (let at = this.#lineEnd(from); at < to; at = this.#lineEnd(at)) {
      breaks += 1
      at += bytes[at] === CR && bytes[at + 1] === LF ? 2 : 1
    }
    return breaks
  }

  /** Scans more of a too long record, cell by cell; true when it has ended. */
  #continueLongRecord(long: LongRecord): boolean {
    const bytes = this.#window
    for (;;) {
      const start = this.#from
      this.#flags = 0
      this.#breaks = 0
      const end = this.#endOfCell(start, long)
      long.flags |= this.#flags
      if (end === needMore) {
        if (!long.isCellPlain && this.#waitsForEnclosure(start, long)) return false
        // A CR at the end of the window ends the record, but an LF may follow it: it stays for the next call.
        const partEnd = bytes[this.#to - 1] === CR ? this.#to - 1 : this.#to
        this.#keep(long, start, partEnd, false)
        this.#line += this.#breaks
        long.isCellPlain ||= this.#afterBlanks(start) < partEnd
        long.isCellCut = true
        this.#from = partEnd
        return false
      }
      this.#keep(long, start, end, !long.isCellCut && !long.toLineEnd)
      long.column += 1
      long.isCellCut = long.isCellPlain = false
      this.#line += this.#breaks
      if (end < this.#to && bytes[end] === this.#separator) {
        long.passed += 1
        this.#from = end + 1
        continue
      }
      this.#next = end === this.#to ? end : this.#afterLineEnd(end)
      this.#emitLong(long)
      return true
    }
  }

  /** Whether the cell at `start` must stay in the window: it is short, or its enclosure may still close. */
  #waitsForEnclosure(start: number, long: LongRecord): boolean {
    const isOpen = this.#window[this.#afterBlanks(start)] === this.#enclosure && this.#enclosedTo === start
    return this.#to - start <= this.#limits.maxRecordBytes || (isOpen && !long.toLineEnd)
  }

  /** The end of the cell at `at`: a separator, a line end or the end of the file. */
  #endOfCell(at: number, long: LongRecord): number {
    const bytes = this.#window
    this.#enclosedFrom = this.#enclosedTo = at
    if (long.toLineEnd) return this.#knownEnd(this.#lineEnd(at))
    let from = at
    const open = long.isCellPlain ? at : this.#afterBlanks(at)
    if (open === this.#to && !this.#atEnd) return needMore
    if (!long.isCellPlain && open < this.#to && bytes[open] === this.#enclosure) {
      const close = this.#closing(open)
      if (close === needMore) return needMore
      if (close === this.#to) {
        this.#flags |= recordFlags.unterminated
        long.toLineEnd = true
        this.#resetNext()
        return this.#knownEnd(this.#lineEnd(at))
      }
      // csv-parse takes no too long records, so this cell needn't be checked for text outside its enclosure.
      this.#flags |= recordFlags.enclosed | recordFlags.irregular
      this.#enclosedFrom = open
      this.#enclosedTo = from = close + 1
    }
    return this.#knownEnd(Math.min(this.#lineEnd(from), this.#find(this.#separator, from)))
  }

  /** Returns `end` unless further bytes may change it. */
  #knownEnd(end: number): number {
    if (end === this.#to) return this.#atEnd ? end : needMore
    if (this.#window[end] === CR && end + 1 === this.#to && !this.#atEnd) return needMore
    return end
  }

  #keep(long: LongRecord, start: number, end: number, wholeCell: boolean): void {
    const { maxRecordBytes, maxIdentityBytes } = this.#limits
    long.passed += end - start
    if (long.column === this.#wantedColumn)
      long.cell =
        wholeCell && long.passed <= maxIdentityBytes ? Buffer.from(this.#window.subarray(start, end)) : null
    // The first part of a cell that the window can't hold fills the record, so that later parts are passed over.
    const remaining = maxRecordBytes - long.keptLength
    if (remaining === 0) return
    const separator = long.column > 0 ? 1 : 0
    const cut = Math.min(end, start + remaining - separator)
    // A cell that would be cut in its enclosed text is left out, and nothing after it is kept.
    if (cut > this.#enclosedFrom && cut < this.#enclosedTo) {
      long.keptLength = maxRecordBytes
      return
    }
    if (separator === 1) long.kept.push(Buffer.from([this.#separator]))
    long.kept.push(Buffer.from(this.#window.subarray(start, cut)))
    long.keptLength += separator + cut - start
  }

  #emitLong(long: LongRecord): void {
    const kept = Buffer.concat(long.kept)
    const lines = this.#line - long.line + 1
    this.#line += 1
    this.#from = this.#next
    this.#long = null
    this.#onRecord({
      bytes: kept,
      start: 0,
      end: kept.length,
      line: long.line,
      lines,
      flags: long.flags,
      longCell: long.cell,
    })
  }
}
