import { ImportError } from '../../../shared/contract/errors.ts'
import { recordDecoder, type RecordDecoder } from '../../../shared/csv/character-set.ts'
import { readCells } from '../../../shared/csv/csv-cells.ts'
import { checkedRecords, encodingError } from '../../../shared/csv/file-beginning.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import type { ScannedRecord } from '../../../shared/csv/record-scanner.ts'
import type { ContentFormat, ImportPlan } from '../../../shared/contract/schemas/import.ts'
import { FileWarnings } from '../../../shared/csv/file-warnings.ts'
import { RangeWriter, type PartitionOutput, type Range, type RecordToWrite } from './range-writer.ts'

const maxRecords = 0xffffffff

interface SorterOptions {
  output: PartitionOutput
  bufferSize: number
  borders: Buffer[]
  targetBytes: number
  plan: ImportPlan
  format: ContentFormat
}

/**
 * Receives records as they are scanned: reads the header, checks the file's beginning, writes each record to its
 * range.
 */
export class RecordSorter {
  records = 0
  header: string[] | null = null
  readonly warnings: FileWarnings

  readonly #format: ContentFormat
  readonly #decoder: RecordDecoder
  readonly #identities: IdentityReader
  readonly #ranges: RangeWriter
  readonly #output: PartitionOutput
  readonly #bufferSize: number
  readonly #targetBytes: number
  readonly #unidentified: RangeWriter[] = []
  #unidentifiedBytes = 0
  #headerIsNext: boolean
  #badlyEncoded = 0
  readonly #item: RecordToWrite = {
    number: 0,
    line: 0,
    flags: 0,
    identity: Buffer.alloc(0),
    identityLength: 0,
    bytes: Buffer.alloc(0),
    start: 0,
    end: 0,
  }

  constructor(options: SorterOptions) {
    this.warnings = new FileWarnings(options.plan, options.format)
    this.#format = options.format
    this.#decoder = recordDecoder(options.format.character_set)
    this.#identities = new IdentityReader(options.plan, options.format)
    this.#output = options.output
    this.#bufferSize = options.bufferSize
    this.#targetBytes = options.targetBytes
    this.#headerIsNext = options.format.csv_has_headers
    this.#ranges = new RangeWriter({ ...options, within: { from: null, to: null } })
  }

  add(record: ScannedRecord): void {
    if (this.#headerIsNext) {
      this.#headerIsNext = false
      this.header = this.#readCells(record)
      this.warnings.headerRecord(this.header)
      this.warnings.noticeEnclosures(record)
      return
    }
    this.#count()
    this.#checkBeginning(record)
    this.warnings.notice(record, this.records)

    const identityLength = this.#identities.read(record)
    const item = this.#item
    item.number = this.records
    item.line = record.line
    item.flags = record.flags
    item.bytes = record.bytes
    item.start = record.start
    item.end = record.end
    item.identity = this.#identities.identityBytes
    item.identityLength = Math.max(0, identityLength)
    if (identityLength === -1) this.#addUnidentified()
    else this.#ranges.add(item)
  }

  /** Returns all ranges between the borders, the empty ones too. */
  finish(): { sorted: Range[]; unidentified: Range[] } {
    if (this.records < checkedRecords) this.#refuseIfMostlyBad(this.records)
    if (this.records === 0) this.warnings.noRecord(this.header)
    const unidentified = this.#unidentified
      .flatMap((writer) => writer.finish())
      .map((range): Range => ({ ...range, kind: 'unidentified' }))
    return { sorted: this.#ranges.finish(), unidentified }
  }

  #count(): void {
    this.records += 1
    if (this.records > maxRecords)
      throw new ImportError(
        'content_refused',
        `the file has more than ${maxRecords} records: split it into several files`,
      )
  }

  #checkBeginning(record: ScannedRecord): void {
    if (this.records <= checkedRecords) this.#checkEncoding(record)
    if (this.records === 1 && !this.#format.csv_has_headers)
      this.warnings.firstRecord(this.#readCells(record))
  }

  #readCells(record: ScannedRecord): string[] {
    return readCells(this.#decoder.decode(record.bytes, record.start, record.end), this.#format)
  }

  /** Records without an identity stay in file order, which is the order of the failed log. */
  #addUnidentified(): void {
    let writer = this.#unidentified.at(-1)
    if (writer === undefined || this.#unidentifiedBytes >= this.#targetBytes) {
      writer = new RangeWriter({
        output: this.#output,
        bufferSize: this.#bufferSize,
        borders: [],
        within: { from: null, to: null },
      })
      this.#unidentified.push(writer)
      this.#unidentifiedBytes = 0
    }
    writer.add(this.#item)
    this.#unidentifiedBytes += this.#item.end - this.#item.start
  }

  #checkEncoding({ bytes, start, end }: ScannedRecord): void {
    if (!this.#decoder.isValid(bytes, start, end)) this.#badlyEncoded += 1
    if (this.records === checkedRecords) this.#refuseIfMostlyBad(checkedRecords)
  }

  #refuseIfMostlyBad(records: number): void {
    const refusal = encodingError(this.#badlyEncoded, records, this.#format)
    if (refusal !== null) throw refusal
  }
}
