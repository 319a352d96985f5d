import type { SourceBeginning, ImportDocument } from '../../../shared/contract/schemas/import.ts'
import {
  beginningBytes,
  readBeginning,
  requestedFormat,
  type Beginning,
  type RequestedFormat,
} from '../../../shared/csv/file-beginning.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'
import { transcoder, type Transcoder } from '../../../shared/csv/transcoder.ts'

/** What the beginning of a source said, and the warnings that follow from it. */
export interface ReadContent {
  beginning: SourceBeginning
  warnings: string[]
}

/** Reads the beginning of a source on its way into the staging, and converts the source where it isn't staged as it is. */
export class ContentReader {
  /** Null before the beginning was read. */
  result: ReadContent | null = null
  /** Why the content was refused. The staging may reject with another error that says less. */
  refusal: unknown = null

  readonly #requested: RequestedFormat
  /** Null where the source is staged as it is. */
  #conversion: Transcoder | null = null

  constructor(document: Pick<ImportDocument, 'source' | 'options'>) {
    this.#requested = requestOf(document)
  }

  /** Yields the bytes to stage. Throws ImportError `content_refused` before the first of them. */
  async *read(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const buffered: Uint8Array[] = []
    let length = 0
    for await (const piece of pieces) {
      const isBeginning = length <= beginningBytes
      length += piece.length
      if (isBeginning) {
        // A copy: the source may reuse the piece.
        buffered.push(Buffer.from(piece))
        if (length <= beginningBytes) continue
        yield this.#begin(Buffer.concat(buffered), { isWhole: false })
      } else yield this.#conversion?.write(Buffer.from(piece.buffer, piece.byteOffset, piece.length)) ?? piece
    }
    if (length <= beginningBytes) yield this.#begin(Buffer.concat(buffered), { isWhole: true })
    if (this.#conversion === null) return
    yield this.#conversion.end()
    this.result!.beginning.source_bytes = length
  }

  /** Reads the beginning. Returns its bytes as they are staged. */
  #begin(bytes: Buffer, { isWhole }: { isWhole: boolean }): Buffer {
    const beginning = this.#readBeginning({ bytes: bytes.subarray(0, beginningBytes), isWhole })
    this.result = { beginning: beginning.stored, warnings: beginning.warnings }
    const { transcodedFrom, markBytes } = beginning
    if (transcodedFrom === null) return bytes
    this.#conversion = transcoder(transcodedFrom)
    return this.#conversion.write(bytes.subarray(markBytes))
  }

  #readBeginning(sample: Sample): Beginning {
    try {
      return readBeginning(sample, this.#requested)
    } catch (error) {
      this.refusal = error
      throw error
    }
  }
}

/** Inline content is text already, so its character set has no effect. */
export const requestOf = ({
  source,
  options,
}: Pick<ImportDocument, 'source' | 'options'>): RequestedFormat => ({
  ...requestedFormat(options),
  ...(source.type === 'json' ? { characterSet: 'utf-8' as const } : {}),
})
