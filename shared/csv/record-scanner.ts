import type { FileFormat } from '../contract/schemas/import.ts'

/**
 * Finds the records of a CSV file in its bytes, without decoding them. One pass, any size of file, flat memory.
 *
 * The rules (all of them about where a record ends; what is in its cells is read later):
 * - CRLF, LF and CR end a record. A line that is empty or blank is no record.
 * - An enclosure opens only as the very first byte of a cell. Doubled inside it stands for itself. After it closes,
 *   blanks up to the separator are nothing; other text makes the cell one "as typed", up to the next separator or
 *   line end ("irregular").
 * - An enclosure without an end within 256 KiB, 1,000 lines or the file: the record ends with the line on which it
 *   opens ("unterminated"), and scanning goes on with the next line.
 * - A record of more than 1 MiB is cut there, at a cell's border ("too long"); its identity is still read.
 *
 * Bytes are jumped over with indexOf: a record without an enclosure costs a look for its line end and one for the
 * next enclosure, which is shared by all records before it. Counting quotes instead would be shorter and wrong: one
 * stray `12"` moves every later border.
 */

export interface Dialect {
  /** Byte of the separator and of the enclosure. */
  separator: number
  enclosure: number
}

export function dialectBytes(
  format: Pick<FileFormat, 'csv_field_separator' | 'csv_field_enclosure'>,
): Dialect {
  return {
    separator: format.csv_field_separator.charCodeAt(0),
    enclosure: format.csv_field_enclosure.charCodeAt(0),
  }
}

export const recordFlags = {
  /** At least one cell is enclosed. */
  enclosed: 1,
  /** A cell has text or blanks after its closing enclosure. */
  irregular: 2,
  unterminated: 4,
  tooLong: 8,
} as const

/** Where a record lies in `bytes`; valid only during the call. */
export interface ScannedRecord {
  bytes: Buffer
  start: number
  end: number
  /** Physical line of its first byte, from 1. */
  line: number
  /** Physical lines that it spans. */
  lines: number
  flags: number
  /** Of a too long record: the raw cell of the column that was asked for, null when it has none or it is too long itself. */
  longCell: Buffer | null
}

const longestRecord = 1024 * 1024
const longestEnclosure = 256 * 1024
const maxEnclosureLines = 1_000

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const TAB = 0x09

/** The window grows when a record needs it, up to what holds the longest record and room to read into. */
const firstWindow = 512 * 1024
const largestWindow = 4 * 1024 * 1024
const needMore = -1

/** A too long record on its way: what was kept of it, and where in it the scan stands. */
interface LongRecord {
  line: number
  flags: number
  kept: Buffer[]
  keptLength: number
  column: number
  /** Inside a cell without enclosure whose beginning is gone already. */
  inPlainCell: boolean
  /** Its enclosure has no end, so nothing but the line's end ends it. */
  toLineEnd: boolean
  cell: Buffer | null
}

/** Fed with bytes by `space` and `advance`, it hands out record after record, by the rules above. Itself throws nothing. */
export class RecordScanner {
  readonly #separator: number
  readonly #enclosure: number
  readonly #wantedColumn: number
  readonly #onRecord: (record: ScannedRecord) => void

  #window = Buffer.allocUnsafeSlow(firstWindow)
  /** The bytes [from, to) of the window are read and not scanned yet. */
  #from = 0
  #to = 0
  #atEnd = false
  #line = 1
  #long: LongRecord | null = null

  /** Next line feed, carriage return and enclosure at or after the scan's position; -1 is unknown, `#to` is none. */
  #nextLf = -1
  #nextCr = -1
  #nextEnclosure = -1

  /** What scanning one record found out besides its end. */
  #flags = 0
  #breaks = 0
  #next = 0

  readonly #record: ScannedRecord

  /** `wantedColumn`: index of the cell that is kept of a too long record. */
  constructor(options: {
    dialect: Dialect
    wantedColumn: number
    onRecord: (record: ScannedRecord) => void
  }) {
    this.#separator = options.dialect.separator
    this.#enclosure = options.dialect.enclosure
    this.#wantedColumn = options.wantedColumn
    this.#onRecord = options.onRecord
    this.#record = { bytes: this.#window, start: 0, end: 0, line: 0, lines: 0, flags: 0, longCell: null }
  }

  /** Whether the bytes so far are whole records: a scanner that began with the next ones would find the same in them. */
  get isBetweenRecords(): boolean {
    return this.#from === this.#to && this.#long === null
  }

  /** Physical lines scanned. */
  get lines(): number {
    return this.#line - 1
  }

  /** Where the file's next bytes are to be put; then call `advance` with their number. */
  space(): Buffer {
    const rest = this.#to - this.#from
    const isTight = rest * 2 > this.#window.length && this.#window.length < largestWindow
    const target = isTight ? Buffer.allocUnsafeSlow(this.#window.length * 2) : this.#window
    this.#window.copy(target, 0, this.#from, this.#to)
    this.#window = this.#record.bytes = target
    this.#to = rest
    this.#from = 0
    return this.#window.subarray(this.#to)
  }

  /** Scans what was put into `space()`. */
  advance(length: number): void {
    this.#to += length
    this.#scan()
  }

  /** Scans the rest: there are no more bytes. */
  end(): void {
    this.#atEnd = true
    this.#scan()
  }

  #scan(): void {
    this.#forgetNext()
    for (;;) {
      if (this.#long !== null) {
        if (!this.#continueLongRecord(this.#long)) return
        continue
      }
      if (!this.#skipBlankLines()) return
      const start = this.#from
      const end = this.#endOfRecord(start)
      if (end !== needMore && end - start <= longestRecord) {
        this.#emit(start, end, this.#flags)
      } else if (end !== needMore || this.#to - start > longestRecord + 1) {
        this.#long = {
          line: this.#line,
          flags: recordFlags.tooLong,
          kept: [],
          keptLength: 0,
          column: 0,
          inPlainCell: false,
          toLineEnd: false,
          cell: null,
        }
        this.#forgetNext()
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

  /** Moves to the first byte of the next record; false when it isn't there yet. */
  #skipBlankLines(): boolean {
    const bytes = this.#window
    const to = this.#to
    const tabIsBlank = this.#separator !== TAB
    for (;;) {
      let at = this.#from
      while (at < to && (bytes[at] === SPACE || (tabIsBlank && bytes[at] === TAB))) at += 1
      if (at === to) {
        // A line of nothing but blanks, however long, needs no memory: drop it as it comes.
        if (this.#atEnd) this.#from = to
        else if (at - this.#from > longestRecord) this.#from = at - 1
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

  /** The position after the line end at `at`; a CR at the window's border may have its LF behind it. */
  #afterLineEnd(at: number): number {
    if (this.#window[at] === LF) return at + 1
    if (at + 1 < this.#to) return this.#window[at + 1] === LF ? at + 2 : at + 1
    return this.#atEnd ? at + 1 : needMore
  }

  /** To be called before the scan goes back: what lies next is known only from its present position on. */
  #forgetNext(): void {
    this.#nextLf = this.#nextCr = this.#nextEnclosure = -1
  }

  /** Where the line end after `at` is, or the end of what is known. */
  #lineEnd(at: number): number {
    if (this.#nextLf < at) this.#nextLf = this.#find(LF, at)
    if (this.#nextCr < at) this.#nextCr = this.#find(CR, at)
    return this.#nextLf < this.#nextCr ? this.#nextLf : this.#nextCr
  }

  #find(byte: number, at: number): number {
    const found = this.#window.indexOf(byte, at)
    return found === -1 || found >= this.#to ? this.#to : found
  }

  /** The end of the record at `start`, its line end excluded; sets flags, line breaks inside and the next start. */
  #endOfRecord(start: number): number {
    this.#flags = 0
    this.#breaks = 0
    return this.#endFrom(start, true)
  }

  /** The same from any place in a record; `atCell` tells whether a cell begins at `at`. */
  #endFrom(at: number, atCell: boolean): number {
    const bytes = this.#window
    let cell = atCell ? at : -1
    for (;;) {
      const lineEnd = this.#lineEnd(at)
      if (this.#nextEnclosure < at) this.#nextEnclosure = this.#find(this.#enclosure, at)
      const enclosure = this.#nextEnclosure
      if (enclosure >= lineEnd) return this.#finish(lineEnd)

      const opens = enclosure === cell || (enclosure > at && bytes[enclosure - 1] === this.#separator)
      cell = -1
      if (!opens) {
        at = enclosure + 1
        continue
      }
      const close = this.#closing(enclosure)
      if (close === needMore) return needMore
      if (close === this.#to) {
        this.#flags |= recordFlags.unterminated
        this.#forgetNext()
        return this.#finish(this.#lineEnd(enclosure))
      }
      this.#flags |= recordFlags.enclosed
      let after = close + 1
      while (after < this.#to && this.#isBlank(bytes[after]!)) after += 1
      if (after > close + 1) this.#flags |= recordFlags.irregular
      if (after === this.#to) return this.#finish(after)
      const byte = bytes[after]
      if (byte === this.#separator) at = cell = after + 1
      else if (byte === LF || byte === CR) at = after
      else {
        this.#flags |= recordFlags.irregular
        at = close + 1
      }
    }
  }

  #isBlank(byte: number): boolean {
    return byte === SPACE || (byte === TAB && this.#separator !== TAB)
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
   * The closing enclosure for the one that opens at `open`; `#to` when there is none within the bounds. Counts the
   * line breaks between them.
   */
  #closing(open: number): number {
    const bytes = this.#window
    const limit = open + longestEnclosure
    let at = open + 1
    for (;;) {
      const found = this.#find(this.#enclosure, at)
      if (found > limit) return this.#to
      if (found === this.#to) return this.#atEnd ? this.#to : this.#to > limit ? this.#to : needMore
      if (found + 1 === this.#to && !this.#atEnd) return needMore
      if (found + 1 < this.#to && bytes[found + 1] === this.#enclosure) {
        at = found + 2
        continue
      }
      const breaks = this.#lineBreaks(open, found)
      if (breaks >= maxEnclosureLines) return this.#to
      this.#breaks += breaks
      return found
    }
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

  /** Goes on with a too long record, cell by cell; true when it ended. */
  #continueLongRecord(long: LongRecord): boolean {
    const bytes = this.#window
    for (;;) {
      const start = this.#from
      if (start === this.#to && !this.#atEnd) return false
      this.#flags = 0
      this.#breaks = 0
      const end = this.#endOfCell(start, long)
      long.flags |= this.#flags
      if (end === needMore) {
        const wholeCellFits = this.#to - start <= longestRecord
        if (wholeCellFits && (bytes[start] === this.#enclosure || !long.inPlainCell)) return false
        this.#keep(long, start, this.#to, false)
        this.#line += this.#breaks
        long.inPlainCell = true
        this.#from = this.#to
        return false
      }
      this.#keep(long, start, end, !long.inPlainCell && !long.toLineEnd)
      long.column += 1
      long.inPlainCell = false
      this.#line += this.#breaks
      const recordEnds = end === this.#to || bytes[end] !== this.#separator || long.toLineEnd
      if (!recordEnds) {
        this.#from = end + 1
        continue
      }
      this.#next = end === this.#to ? end : this.#afterLineEnd(end)
      this.#emitLong(long)
      return true
    }
  }

  /** The end of the cell at `at`: its separator, its line end, or the end of the file. */
  #endOfCell(at: number, long: LongRecord): number {
    const bytes = this.#window
    if (long.toLineEnd) return this.#decidedEnd(this.#lineEnd(at))
    let from = at
    if (!long.inPlainCell && bytes[at] === this.#enclosure && at < this.#to) {
      const close = this.#closing(at)
      if (close === needMore) return needMore
      if (close === this.#to) {
        this.#flags |= recordFlags.unterminated
        long.toLineEnd = true
        this.#forgetNext()
        return this.#decidedEnd(this.#lineEnd(at))
      }
      this.#flags |= recordFlags.enclosed
      // A too long record is read by the careful reader anyway.
      this.#flags |= recordFlags.irregular
      from = close + 1
    }
    return this.#decidedEnd(Math.min(this.#lineEnd(from), this.#find(this.#separator, from)))
  }

  /** An end that can't move when more bytes come. */
  #decidedEnd(end: number): number {
    if (end === this.#to) return this.#atEnd ? end : needMore
    if (this.#window[end] === CR && end + 1 === this.#to && !this.#atEnd) return needMore
    return end
  }

  #keep(long: LongRecord, start: number, end: number, wholeCell: boolean): void {
    const isWanted = long.column === this.#wantedColumn
    if (isWanted)
      long.cell =
        wholeCell && end - start <= longestEnclosure * 2
          ? Buffer.from(this.#window.subarray(start, end))
          : null
    const beginsCell = !long.inPlainCell
    const separator = beginsCell && long.column > 0 ? 1 : 0
    const remaining = longestRecord - long.keptLength
    const whole = end - start + separator <= remaining
    // Only a cell without enclosure may be cut, or one whose enclosure has no end; after a cell that was left out
    // nothing more is kept.
    const isEnclosed = this.#window[start] === this.#enclosure && !long.toLineEnd
    const cut = whole || isEnclosed ? end : start + Math.max(0, remaining - separator)
    if (remaining === 0 || (!whole && cut === end)) {
      long.keptLength = longestRecord
      return
    }
    if (separator === 1) long.kept.push(Buffer.from([this.#separator]))
    long.kept.push(Buffer.from(this.#window.subarray(start, cut)))
    long.keptLength += cut - start + separator
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
