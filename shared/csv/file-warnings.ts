import type { CharacterSet, ContentFormat, ImportPlan } from '../contract/schemas/import.ts'
import { emailIdentity } from '../values/email.ts'
import { characterSetName, recordDecoder, type RecordDecoder } from './character-set.ts'
import { consentOfHeader } from './consent-headers.ts'
import { plainName } from './plain-name.ts'
import type { ScannedRecord } from './record-scanner.ts'

/** Records that deserve a warning, and the line or number of the first; 0 is none. Plain values, which cross threads. */
export interface FileFindings {
  manyLines: number
  manyLinesFirst: number
  controlsLine: number
  /** Number of the first record that is invalid in the character set that `auto` detected. */
  firstInvalid: number
}

/** Content that can be imported but is probably a mistake, found while the file is scanned. */
export class FileWarnings {
  readonly #plan: ImportPlan
  readonly #format: ContentFormat
  readonly findings: FileFindings = { manyLines: 0, manyLinesFirst: 0, controlsLine: 0, firstInvalid: 0 }
  readonly #meantSet: string | undefined
  readonly #decoder: RecordDecoder
  #header: string | null = null
  #address: string | null = null
  #unmapped: string[] = []

  constructor(plan: ImportPlan, format: ContentFormat) {
    this.#plan = plan
    this.#format = format
    this.#meantSet = setsWithPunctuation[format.character_set]
    this.#decoder = recordDecoder(format.character_set)
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
    this.#address = cells.find((cell) => emailIdentity(cell.trim()) !== null) ?? null
    this.#unmapped = cells
      .flatMap((cell, i) => ((this.#plan.columns[i] ?? null) === null ? unmappedConsent(cell, i) : []))
      .slice(0, maxUnmapped)
  }

  /** `number` is the record's, from 1. */
  notice(record: ScannedRecord, number: number): void {
    const { findings } = this
    if (record.lines > remarkableLines) {
      findings.manyLines += 1
      findings.manyLinesFirst ||= record.line
    }
    if (findings.controlsLine === 0 && this.#meantSet !== undefined && hasC1Control(record))
      findings.controlsLine = record.line
    if (findings.firstInvalid === 0 && this.#format.isDetected === true && !this.#isValid(record))
      findings.firstInvalid = number
  }

  /** Adds what another scan found in the rest of the file, whose records and lines it counts from 1. */
  addSecondHalf(rest: FileFindings, { records, lines }: { records: number; lines: number }): void {
    const { findings } = this
    if (rest.firstInvalid > 0) findings.firstInvalid ||= rest.firstInvalid + records
    if (rest.manyLines > 0) findings.manyLinesFirst ||= rest.manyLinesFirst + lines
    findings.manyLines += rest.manyLines
    if (rest.controlsLine > 0) findings.controlsLine ||= rest.controlsLine + lines
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
    const { manyLines, manyLinesFirst, controlsLine, firstInvalid } = this.findings
    if (manyLines > 0) {
      sentences.push(
        `${manyLines} records span more than ${remarkableLines} lines, the first at line ${manyLinesFirst}: is an enclosure missing?`,
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

  #isValid({ bytes, start, end }: ScannedRecord): boolean {
    return this.#decoder.isValid(bytes, start, end)
  }
}

const remarkableLines = 20

/** Windows sets have letters and punctuation in place of the control characters of these. */
const setsWithPunctuation: Partial<Record<CharacterSet, string>> = {
  'iso-8859-1': 'windows-1252',
  'iso-8859-2': 'windows-1250',
  'iso-8859-15': 'windows-1252',
}

const wordsForEmail = new Set(['email', 'emails', 'mail', 'emailaddress', 'mailaddress'])

/** Warnings of columns that aren't mapped; more say nothing new. */
const maxUnmapped = 10

function unmappedConsent(header: string, index: number): string[] {
  const consent = consentOfHeader(header)
  if (consent === null) return []
  const column = `column ${index + 1} ${JSON.stringify(header.trim().slice(0, 100))}`
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
