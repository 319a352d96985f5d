import type { ContentFormat, ImportPlan } from '../contract/schemas/import.ts'
import { emailIdentity } from '../values/email.ts'
import { fieldReader, type FieldReader } from '../values/field-value.ts'
import { comparisonForm } from '../values/identity.ts'
import type { TextBytes } from '../values/text-bytes.ts'
import { undecodable } from './character-set.ts'
import { RecordCells } from './csv-cells.ts'
import { recordFlags, type ScannedRecord } from './record-scanner.ts'

/**
 * Reads the identity of a record from its bytes. The identity decides which chunk a record goes to and which records
 * are duplicates. It is computed only here, and the partition stores it with the record.
 */
export class IdentityReader {
  identityBytes: Buffer = Buffer.allocUnsafeSlow(1024)

  readonly #cells: RecordCells
  readonly #column: number
  readonly #kind: ImportPlan['identity']['kind']
  readonly #field: FieldReader | null
  readonly #separator: number

  constructor(plan: Pick<ImportPlan, 'identity' | 'fields'>, format: ContentFormat) {
    this.#cells = new RecordCells(format)
    this.#column = plan.identity.column
    this.#kind = plan.identity.kind
    this.#separator = format.csv_field_separator.charCodeAt(0)
    const field = plan.fields.find((candidate) => candidate.id === plan.identity.field_id)
    this.#field = field === undefined ? null : fieldReader(field, format.date_format)
  }

  /**
   * Writes the identity in UTF-8 to the beginning of `identityBytes`, which the next call overwrites. Returns its
   * length in bytes, or -1 when the record has no valid identity. A plain ASCII email needs no string.
   */
  read(record: ScannedRecord): number {
    const { bytes, start, end, flags } = record
    if ((flags & recordFlags.unterminated) !== 0) return -1
    if ((flags & recordFlags.tooLong) !== 0) {
      const cell = record.longCell
      return cell === null ? -1 : this.#readCell(cell, 0, cell.length, recordFlags.enclosed, 0)
    }
    if ((flags & recordFlags.enclosed) !== 0) return this.#readCell(bytes, start, end, flags, this.#column)
    let from = start
    for (let column = this.#column; column > 0; column -= 1) {
      while (from < end && bytes[from] !== this.#separator) from += 1
      if (from === end) return -1
      from += 1
    }
    let to = from
    while (to < end && bytes[to] !== this.#separator) to += 1
    return this.#readCell(bytes, from, to, 0, 0)
  }

  /** Reads a cell of these bytes, which are a record or a part of one. */
  #readCell(bytes: Buffer, start: number, end: number, flags: number, column: number): number {
    const cells = this.#cells.read(bytes, start, end, flags)
    const cell = cells.text(column)
    const asciiLength = this.#kind === 'email' ? asciiEmailIdentity(cell, this.identityBytes) : -1
    if (asciiLength !== -1) return asciiLength
    const text = cell.toString()
    if (text === '' || text.includes('\0')) return -1
    if (text.includes(undecodable) && !cells.isValid) return -1
    const identity = this.#parseIdentity(text)
    if (identity === null) return -1
    const length = Buffer.byteLength(identity)
    if (length > this.identityBytes.length) this.identityBytes = Buffer.allocUnsafeSlow(length)
    return this.identityBytes.write(identity)
  }

  #parseIdentity(text: string): string | null {
    if (this.#field === null) return emailIdentity(text)
    const value = this.#field.fromText(text)
    return value === null ? null : comparisonForm(String(value))
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
for (const character of "+=%/?!#$&'*^`{}|~") kinds[character.charCodeAt(0)] = inLocalPart

const AT = 0x40
const DOT = 0x2e
const DASH = 0x2d

/**
 * Fast path of `emailIdentity`: writes the comparison form of an ASCII email to `target` and returns its length.
 * After -1 `emailIdentity` decides, because the cell may be a valid email in another form.
 */
export function asciiEmailIdentity({ bytes, start, end }: TextBytes, target: Buffer): number {
  let length = 0
  let at = start
  for (; at < end; at += 1) {
    const byte = bytes[at]!
    if (byte === AT) break
    if ((kinds[byte]! & inLocalPart) === 0) return -1
    target[length++] = lower[byte]!
    if (length > 256) return -1
  }
  const domainLength = end - at - 1
  if (length === 0 || domainLength > 256) return -1
  target[length++] = AT

  let label = 0
  let hasDot = false
  let onlyDigits = true
  for (at += 1; at < end; at += 1) {
    const byte = bytes[at]!
    const kind = kinds[byte]!
    if ((kind & inDomain) === 0) return -1
    if ((kind & digitOrDot) === 0) onlyDigits = false
    if (byte === DOT) {
      if (label === 0 || bytes[at - 1] === DASH) return -1
      hasDot = true
      label = 0
    } else {
      label += 1
      if (label > 63 || (label === 1 && byte === DASH)) return -1
    }
    target[length++] = lower[byte]!
  }
  return !hasDot || label === 0 || onlyDigits || bytes[end - 1] === DASH ? -1 : length
}
