import { isUtf8 } from 'node:buffer'
import type { FileFormat, ImportPlan } from '../contract/schemas/import.ts'
import { emailIdentity } from '../values/email.ts'
import { fieldReader, type FieldReader } from '../values/field-value.ts'
import { comparisonForm } from '../values/identity.ts'
import { readCells } from './csv-cells.ts'
import { recordFlags, type ScannedRecord } from './record-scanner.ts'

/**
 * Reads the identity of a record straight from its bytes. It decides which chunk a record goes to and, in the
 * worker, which records are the same; it is computed once, here, and travels with the record.
 */
export class IdentityReader {
  identityBytes: Buffer = Buffer.allocUnsafeSlow(1024)

  readonly #format: FileFormat
  readonly #column: number
  readonly #kind: ImportPlan['identity']['kind']
  readonly #field: FieldReader | null
  readonly #separator: number

  constructor(plan: Pick<ImportPlan, 'identity' | 'fields'>, format: FileFormat) {
    this.#format = format
    this.#column = plan.identity.column
    this.#kind = plan.identity.kind
    this.#separator = format.csv_field_separator.charCodeAt(0)
    const field = plan.fields.find((candidate) => candidate.id === plan.identity.field_id)
    this.#field = field === undefined ? null : fieldReader(field, format.date_format)
  }

  /**
   * Leaves the identity in UTF-8 at the beginning of `identityBytes`, until the next call, and returns its length in
   * bytes; -1 for a record without a valid one. The common case, a plain ASCII email in a record without enclosures,
   * is done without making a string.
   */
  read(record: ScannedRecord): number {
    const { bytes, start, end, flags } = record
    if ((flags & recordFlags.unterminated) !== 0) return -1
    if ((flags & recordFlags.tooLong) !== 0) return this.#readLongCell(record.longCell)
    if ((flags & recordFlags.enclosed) !== 0) {
      const cell = readCells(this.#decode(bytes, start, end), this.#format)[this.#column]
      return cell === undefined ? -1 : this.#readText(cell, () => this.#isSound(bytes, start, end))
    }
    let from = start
    for (let column = this.#column; column > 0; column -= 1) {
      while (from < end && bytes[from] !== this.#separator) from += 1
      if (from === end) return -1
      from += 1
    }
    let to = from
    while (to < end && bytes[to] !== this.#separator) to += 1
    if (this.#kind === 'email') {
      const length = asciiEmailIdentity(bytes, from, to, this.identityBytes)
      if (length !== -1) return length
    }
    return this.#readText(this.#decode(bytes, from, to), () => this.#isSound(bytes, from, to))
  }

  #readLongCell(cell: Buffer | null): number {
    if (cell === null) return -1
    const text = readCells(this.#decode(cell, 0, cell.length), this.#format)[0] ?? ''
    return this.#readText(text, () => this.#isSound(cell, 0, cell.length))
  }

  /** `isSound`: whether the bytes are what the character set says; asked only when the text gives reason to. */
  #readText(cell: string, isSound: () => boolean): number {
    const text = cell.trim()
    if (text === '' || text.includes('\0') || (text.includes('\ufffd') && !isSound())) return -1
    const identity = this.#identityOf(text)
    if (identity === null) return -1
    const length = Buffer.byteLength(identity)
    if (length > this.identityBytes.length) this.identityBytes = Buffer.allocUnsafeSlow(length)
    return this.identityBytes.write(identity)
  }

  #identityOf(text: string): string | null {
    if (this.#field === null) return emailIdentity(text)
    const value = this.#field.fromText(text)
    return value === null ? null : comparisonForm(String(value))
  }

  #decode(bytes: Buffer, start: number, end: number): string {
    return bytes.toString(this.#format.character_set === 'utf-8' ? 'utf8' : 'latin1', start, end)
  }

  #isSound(bytes: Buffer, start: number, end: number): boolean {
    return this.#format.character_set !== 'utf-8' || isUtf8(bytes.subarray(start, end))
  }
}

const inLocalPart = 1
const inDomain = 2
const digitOrDot = 4
const kinds = new Uint8Array(256)
const lower = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte))
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.') {
  kinds[character.charCodeAt(0)] = inLocalPart | inDomain | (/[\d.]/.test(character) ? digitOrDot : 0)
}
for (const character of "+=%/:;?!#$&'*`{}|~") kinds[character.charCodeAt(0)] = inLocalPart

/** What `trim` takes of ASCII. */
const isBlank = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)

const AT = 0x40
const DOT = 0x2e
const DASH = 0x2d

/**
 * The comparison form of an ASCII email in `bytes`, written to `target`; returns its length. -1 says nothing: the cell
 * may be invalid or only less plain, and emailIdentity decides.
 */
export function asciiEmailIdentity(bytes: Buffer, start: number, end: number, target: Buffer): number {
  let from = start
  let to = end
  while (from < to && isBlank(bytes[from]!)) from += 1
  while (to > from && isBlank(bytes[to - 1]!)) to -= 1

  let length = 0
  let at = from
  for (; at < to; at += 1) {
    const byte = bytes[at]!
    if (byte === AT) break
    if ((kinds[byte]! & inLocalPart) === 0) return -1
    target[length++] = lower[byte]!
    if (length > 256) return -1
  }
  const domainLength = to - at - 1
  if (length === 0 || at === to || domainLength > 256) return -1
  target[length++] = AT

  let label = 0
  let dots = 0
  let onlyDigits = true
  for (at += 1; at < to; at += 1) {
    const byte = bytes[at]!
    const kind = kinds[byte]!
    if ((kind & inDomain) === 0) return -1
    if ((kind & digitOrDot) === 0) onlyDigits = false
    if (byte === DOT) {
      if (label === 0 || bytes[at - 1] === DASH) return -1
      dots += 1
      label = 0
    } else {
      label += 1
      if (label > 63 || (label === 1 && byte === DASH)) return -1
    }
    target[length++] = lower[byte]!
  }
  return dots === 0 || label === 0 || onlyDigits || bytes[to - 1] === DASH ? -1 : length
}
