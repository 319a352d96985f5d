import { recordFromKeys } from '../contract/record-from-keys.ts'
import type { CharacterSet, ContentFormat, ImportPlan } from '../contract/schemas/import.ts'
import { emailIdentity } from '../values/email.ts'
import { characterSetName, recordDecoder, type RecordDecoder } from './character-set.ts'
import { consentOfHeader } from './consent-headers.ts'
import { plainName } from './plain-name.ts'
import { cellText, readCells } from './csv-cells.ts'
import { recordFlags, type ScannedRecord } from './record-scanner.ts'

const countedKinds = ['manyLines', 'swallowing', 'typed', 'backslash'] as const

/** How many records deserve a warning, and the line of the first; 0 is none. */
type Counted = Record<(typeof countedKinds)[number], { records: number; line: number }>

/** 0 is none. */
interface FileFindings extends Counted {
  controlsLine: number
  /** Number of the first record that is invalid in the character set that `auto` detected. */
  firstInvalid: number
}

/** Content that can be imported but is probably a mistake, found while the file is scanned. */
export class FileWarnings {
  readonly #plan: ImportPlan
  readonly #format: ContentFormat
  readonly findings: FileFindings = {
    ...recordFromKeys(countedKinds, () => ({ records: 0, line: 0 })),
    ...{ controlsLine: 0, firstInvalid: 0 },
  }
  readonly #meantSet: string | undefined
  readonly #decoder: RecordDecoder
  readonly #emailColumn: number
  #header: string | null = null
  #address: string | null = null
  #unmapped: string[] = []
  #noRecord: string | null = null

  constructor(plan: ImportPlan, format: ContentFormat) {
    this.#plan = plan
    this.#format = format
    this.#meantSet = setsWithPunctuation[format.character_set]
    this.#decoder = recordDecoder(format.character_set)
    this.#emailColumn = plan.columns.findIndex(
      (column) => column?.kind === 'built_in' && column.name === 'email',
    )
  }

  /** Called where `csv_has_headers` is false: a record that names the columns is probably a header. */
  firstRecord(cells: string[]): void {
    const names = this.#plan.columns.map((column) => {
      if (column === null) return null
      if (column.kind === 'built_in') return column.name
      return this.#plan.fields.find((field) => field.id === column.field_id)!.name
    })
    const named = names.filter((name, i) => name !== null && plainName(cells[i] ?? '') === plainName(name))
    const email = cells[names.indexOf('email')] ?? ''
    const isHeader = named.length * 2 > names.filter((name) => name !== null).length
    if (isHeader || wordsForEmail.has(plainName(email))) this.#header = cells.join(', ').slice(0, 100)
  }

  /**
   * Called where `csv_has_headers` is true: a header with an email address, mapped or not, is probably a record, and a
   * column that says who gets mail should be mapped.
   */
  headerRecord(cells: string[]): void {
    this.#address = cells.find((cell) => emailIdentity(cellText(cell)) !== null) ?? null
    const { columns } = this.#plan
    const isToldByAnother = columns.some(
      (column) => column?.kind === 'built_in' && ['status', 'consent'].includes(column.name),
    )
    this.#unmapped = cells
      .flatMap((cell, i) => ((columns[i] ?? null) === null ? unmappedConsent(cell, i, isToldByAnother) : []))
      .slice(0, maxUnmapped)
  }

  /** `number` is the record's, from 1. */
  notice(record: ScannedRecord, number: number): void {
    const { findings } = this
    this.noticeEnclosures(record)
    if (findings.controlsLine === 0 && this.#meantSet !== undefined && hasC1Control(record))
      findings.controlsLine = record.line
    if (findings.firstInvalid === 0 && this.#format.isDetected === true && !this.#isValid(record))
      findings.firstInvalid = number
  }

  /** For the header too. */
  noticeEnclosures(record: ScannedRecord): void {
    if (record.lines > remarkableLines) this.#count('manyLines', record)
    if (record.lines > 1 && this.#holdsRecord(record)) this.#count('swallowing', record)
    if ((record.flags & recordFlags.typed) !== 0) this.#count('typed', record)
    if ((record.flags & recordFlags.backslash) !== 0) this.#count('backslash', record)
  }

  #count(kind: (typeof countedKinds)[number], { line }: ScannedRecord): void {
    const found = this.findings[kind]
    found.records += 1
    found.line ||= line
  }

  /** Called at the end of a file without a record. `header`: null where it has no line at all. */
  noRecord(header: readonly string[] | null): void {
    const line = header?.join(', ').slice(0, 100)
    this.#noRecord =
      line === undefined
        ? 'the file has no record: it is empty, or has only lines that are skipped'
        : `the file has no record, only the line ${line}, which is read as the header${
            /\\[nr]/.test(line) ? ': it has \\n as two characters where a line should end' : ''
          }`
  }

  get sentences(): string[] {
    const sentences: string[] = []
    if (this.#header !== null) {
      sentences.push(
        `the first record looks like a header (${this.#header}), and csv_has_headers is false: it is imported as a record`,
      )
    }
    if (this.#address !== null) {
      sentences.push(
        `the header row holds an email address (${this.#address.trim().slice(0, 100)}), and csv_has_headers is true: if the file has no header, this subscriber is missing`,
      )
    }
    sentences.push(...this.#unmapped)
    if (this.#noRecord !== null) sentences.push(this.#noRecord)
    const { manyLines, swallowing, typed, backslash, controlsLine, firstInvalid } = this.findings
    if (manyLines.records > 0) {
      sentences.push(
        `${countRecords(manyLines.records, 'spans', 'span')} more than ${remarkableLines} lines, the first at line ${manyLines.line}: is an enclosure missing?`,
      )
    }
    if (swallowing.records > 0) {
      sentences.push(
        `${countRecords(swallowing.records, 'may have', 'may have')} swallowed others, the first at line ${swallowing.line}: a later line would alone be a record with an email address; is a closing enclosure missing?`,
      )
    }
    if (typed.records > 0) {
      sentences.push(
        `${countRecords(typed.records, 'has', 'have')} text behind a closing enclosure, the first at line ${typed.line}: such a cell is taken as typed, enclosures included`,
      )
    }
    if (backslash.records > 0) {
      sentences.push(
        `${countRecords(backslash.records, 'has', 'have')} a backslash before an enclosure, the first at line ${backslash.line}: if it escapes the enclosure, import the file with a backslash as csv_field_escape`,
      )
    }
    if (controlsLine > 0) {
      sentences.push(
        `the record at line ${controlsLine} has bytes 0x80-0x9F, which are control characters in ${this.#setName}: is the file ${this.#meantSet}?`,
      )
    }
    if (firstInvalid > 0) {
      sentences.push(
        `from record ${firstInvalid} on there are records that are invalid ${this.#setName}, the character set that was detected, and fail: if the file has another one, import it with that as character_set`,
      )
    }
    return sentences
  }

  get #setName(): string {
    return characterSetName(this.#format.character_set)
  }

  /** Whether a later line of the record, read alone, is a record of the mapping's width with an email address. */
  #holdsRecord({ bytes, start, end }: ScannedRecord): boolean {
    if (!bytes.subarray(start, end).includes('@')) return false
    const [, ...lines] = this.#decoder.decode(bytes, start, end).split(/\r\n|\n|\r/)
    return lines.some((line) => {
      const cells = line.includes('@') ? readCells(line, this.#format) : []
      return (
        cells.length === this.#plan.columns.length &&
        emailIdentity(cellText(cells[this.#emailColumn] ?? '')) !== null
      )
    })
  }

  #isValid({ bytes, start, end }: ScannedRecord): boolean {
    return this.#decoder.isValid(bytes, start, end)
  }
}

const remarkableLines = 20

const countRecords = (records: number, verbOfOne: string, verbOfMany: string): string =>
  records === 1 ? `1 record ${verbOfOne}` : `${records} records ${verbOfMany}`

/** Windows sets have letters and punctuation in place of the control characters of these. */
const setsWithPunctuation: Partial<Record<CharacterSet, string>> = {
  'iso-8859-1': 'windows-1252',
  'iso-8859-2': 'windows-1250',
  'iso-8859-15': 'windows-1252',
}

const wordsForEmail = new Set(['email', 'emails', 'mail', 'emailaddress', 'mailaddress'])

/** Warnings of columns that aren't mapped; more say nothing new. */
const maxUnmapped = 10

/** `isToldByAnother`: `status` or `consent` is mapped, and the other of them can't be. */
function unmappedConsent(header: string, index: number, isToldByAnother: boolean): string[] {
  const consent = consentOfHeader(header)
  if (consent === null) return []
  const column = `column ${index + 1} ${JSON.stringify(header.trim().slice(0, 100))}`
  if (consent === 'yes' && isToldByAnother)
    return [
      `${column} speaks of consent or status too and is not mapped, so subscribers who said no only there are imported like all others`,
    ]
  return [
    consent === 'yes'
      ? `${column} speaks of consent or status and is not mapped, so subscribers who said no are imported like all others: map it to consent or status`
      : `${column} says who left or refuses mail and is not mapped, so they are imported like all others: map it to remove_time if it holds times, or else import them in a file of their own with subscriber_defaults.status unsubscribed`,
  ]
}

function hasC1Control({ bytes, start, end }: ScannedRecord): boolean {
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at]!
    if (byte >= 0x80 && byte <= 0x9f) return true
  }
  return false
}
