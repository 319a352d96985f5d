import { ImportError } from '../../../shared/contract/errors.ts'
import { dialectBytes, RecordScanner } from '../../../shared/csv/record-scanner.ts'
import type { StagedFile } from '../../../shared/storage/staging/staging.ts'
import type { PartitionOutput } from './range-writer.ts'
import { RecordSorter, type SorterOptions } from './record-sorter.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'

const readBytes = binaryMegabyte

/** Scans a source from the beginning of a line on, and gives every record to its sorter. */
export class SourceScan {
  readonly sorter: RecordSorter
  readonly #source: StagedFile
  readonly #output: PartitionOutput
  readonly #scanner: RecordScanner
  #position: number

  /** `skippedLines` come before the byte `from`. */
  constructor(options: SorterOptions & { source: StagedFile; from: number; skippedLines?: number }) {
    const sorter = new RecordSorter(options)
    this.sorter = sorter
    this.#source = options.source
    this.#output = options.output
    this.#position = options.from
    this.#scanner = new RecordScanner({
      dialect: dialectBytes(options.format),
      wantedColumn: options.plan.identity.column,
      ...(options.skippedLines === undefined ? {} : { skippedLines: options.skippedLines }),
      onRecord: (record) => {
        sorter.add(record)
      },
    })
  }

  /** Scans up to the byte `end` of the source, or until it is stopped. Throws ImportError `source_unreadable`. */
  async scanTo(end: number, isStopped: () => boolean): Promise<void> {
    while (this.#position < end && !isStopped()) {
      const space = this.#scanner.space()
      const length = Math.min(readBytes, space.length, end - this.#position)
      const read = await this.#source.read(space.subarray(0, length), this.#position)
      if (read === 0)
        throw new ImportError(
          'source_unreadable',
          `the staged file ended at byte ${this.#position} of ${this.#source.size}: was it changed under DATA_DIR?`,
        )
      this.#position += read
      this.#scanner.advance(read)
      await this.#output.flush()
    }
  }

  /** The scan stands between two records. */
  get isBetweenRecords(): boolean {
    return this.#scanner.isBetweenRecords
  }

  /** Physical lines scanned, with the skipped ones. */
  get lines(): number {
    return this.#scanner.lines
  }

  /** Called at the source's end. Resolves to the ranges when everything is written. */
  async end(): Promise<ReturnType<RecordSorter['finish']>> {
    this.#scanner.end()
    const ranges = this.sorter.finish()
    await this.#output.end()
    return ranges
  }
}
