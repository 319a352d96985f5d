import type { ScannedRecord } from '../../shared/records/record-scanner.ts'
import type { FileFormat, ImportPlan } from '../../shared/schemas/import.ts'

/** What imports without fault but looks like a mistake, noticed while the file is scanned. */
export class FileWarnings {
  readonly #plan: ImportPlan
  readonly #format: FileFormat
  #manyLines: { records: number; firstLine: number } = { records: 0, firstLine: 0 }
  #controlsLine = 0
  #header: string | null = null

  constructor(plan: ImportPlan, format: FileFormat) {
    this.#plan = plan
    this.#format = format
  }

  /** Of a file that is said to have no header. */
  firstRecord(cells: string[]): void {
    const names = this.#plan.columns.map((column) => {
      if (column === null) return null
      if (column.kind === 'built_in') return column.name
      return this.#plan.fields.find((field) => field.id === column.field_id)!.name
    })
    const named = names.filter((name, i) => name !== null && plain(cells[i] ?? '') === plain(name))
    const email = cells[names.indexOf('email')] ?? ''
    const isHeader = named.length * 2 > names.filter((name) => name !== null).length
    if (isHeader || wordsForEmail.has(plain(email))) this.#header = cells.join(', ').slice(0, 100)
  }

  notice(record: ScannedRecord): void {
    if (record.lines > remarkableLines) {
      if (this.#manyLines.records === 0) this.#manyLines.firstLine = record.line
      this.#manyLines.records += 1
    }
    if (this.#controlsLine === 0 && this.#format.character_set === 'iso-8859-1' && hasC1Control(record))
      this.#controlsLine = record.line
  }

  get sentences(): string[] {
    const sentences: string[] = []
    if (this.#header !== null) {
      sentences.push(
        `the first record looks like a header (${this.#header}), and csv_has_headers is false: it is imported as a record`,
      )
    }
    if (this.#manyLines.records > 0) {
      sentences.push(
        `${this.#manyLines.records} records span more than ${remarkableLines} lines, the first at line ${this.#manyLines.firstLine}: is an enclosure missing?`,
      )
    }
    if (this.#controlsLine > 0) {
      sentences.push(
        `the record at line ${this.#controlsLine} has bytes 0x80-0x9F, which are control characters in ISO-8859-1: is the file windows-1252?`,
      )
    }
    return sentences
  }
}

const remarkableLines = 20

const wordsForEmail = new Set(['email', 'emails', 'mail', 'emailaddress', 'mailaddress'])

/** A header's words without what people put between them. */
const plain = (text: string): string => text.toLowerCase().replaceAll(/[\s_.-]/g, '')

function hasC1Control({ bytes, start, end }: ScannedRecord): boolean {
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at]!
    if (byte >= 0x80 && byte <= 0x9f) return true
  }
  return false
}
