import { PassThrough } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { type Database } from '../../../shared/runtime/database.ts'
import { waitForDrain } from '../pieces.ts'
import { RequestError } from '../request-error.ts'
import { packed, stagedContent } from '../../../shared/storage/staging/packed-content.ts'
import { isStagingFull, type Staging } from '../../../shared/storage/staging/staging.ts'
import type { StringSink } from './json-skeleton.ts'
import { halfPair } from './json-text.ts'

/** Content up to this size is buffered in memory, so that a small refused body never reaches the staging. */
const maxBufferedBytes = 64 * 1024
/** Bytes that may wait for the staging before the client has to wait too (back-pressure). */
const maxWaitingBytes = 256 * 1024

/** A body's content, completely staged as the source of an import that doesn't exist yet. */
export interface InlineContent {
  /** The id that the import will get. */
  importId: number
  /** Whether all of it is white space. */
  isBlank: boolean
  /** Bytes that it takes in the staging, where it is compressed. */
  bytes: number
  /** Must be called when an import with that id exists or may exist: the content then stays. */
  keep: () => void
}

interface ContentFile {
  importId: number
  stream: PassThrough
  /** Resolves to the staged bytes, or rejects with the staging's error. */
  written: Promise<number>
}

/**
 * Stages a body's content while it arrives. Call `flush` after each piece and `finish` at the end. Call `discard` in
 * any case; it removes content that isn't kept.
 */
export class StagedContent implements StringSink {
  readonly #staging: Staging
  readonly #ids: Database['ids']
  #buffered: Buffer[] = []
  #bufferedSize = 0
  #file: ContentFile | null = null
  /** Files of content that was replaced by later content. */
  #superseded: ContentFile[] = []
  #isBlank = true
  #decoder = new StringDecoder('utf8')
  #hasHalfPair = false
  #isKept = false

  constructor(staging: Staging, { ids }: Database) {
    this.#staging = staging
    this.#ids = ids
  }

  begin(): void {
    this.#buffered = []
    this.#bufferedSize = 0
    if (this.#file !== null) this.#superseded.push(this.#file)
    this.#file = null
    this.#isBlank = true
    this.#decoder = new StringDecoder('utf8')
    this.#hasHalfPair = false
  }

  add(text: Buffer): void {
    this.#buffered.push(text)
    this.#bufferedSize += text.length
    if (this.#isBlank) this.#isBlank = this.#decoder.write(text).trim() === ''
  }

  end(hasHalfPair: boolean): void {
    this.#hasHalfPair = hasHalfPair
  }

  /** Writes what was added, and waits until the staging can take more. */
  async flush(): Promise<void> {
    if (this.#superseded.length > 0) await this.#removeSuperseded()
    if (this.#file === null && this.#bufferedSize <= maxBufferedBytes) return
    const file = (this.#file ??= await this.#createFile())
    for (const piece of this.#buffered.splice(0)) await this.#write(file, piece)
    this.#bufferedSize = 0
  }

  /** Resolves when the content is completely staged. Throws `invalid_request` for half of a surrogate pair. */
  async finish(): Promise<InlineContent> {
    if (this.#hasHalfPair) throw halfPair()
    this.#file ??= await this.#createFile()
    await this.flush()
    const { importId, stream, written } = this.#file
    stream.end()
    const bytes = await written.catch(refuseWhenFull)
    return {
      importId,
      bytes,
      isBlank: this.#isBlank,
      keep: () => {
        this.#isKept = true
      },
    }
  }

  async discard(): Promise<void> {
    if (this.#file !== null && !this.#isKept) this.#superseded.push(this.#file)
    this.#file = null
    this.#buffered = []
    await this.#removeSuperseded()
  }

  async #createFile(): Promise<ContentFile> {
    const importId = await this.#ids.allocate('subscriber_import')
    const stream = new PassThrough({ highWaterMark: maxWaitingBytes })
    // The stream fails when the staging does; `written` has the staging's own error.
    stream.on('error', () => undefined)
    const written = this.#staging.write(stagedContent(importId), packed(stream))
    written.catch(() => stream.destroy())
    return { importId, stream, written }
  }

  async #write({ stream, written }: ContentFile, piece: Buffer): Promise<void> {
    if (!stream.destroyed && stream.write(piece)) return
    if (!stream.destroyed) await waitForDrain(stream)
    if (stream.destroyed) await written.catch(refuseWhenFull)
  }

  /** What can't be removed now is removed by a later sweep. */
  async #removeSuperseded(): Promise<void> {
    for (const { importId, stream, written } of this.#superseded.splice(0)) {
      stream.destroy(new Error('the content is not needed'))
      await written.catch(() => undefined)
      await this.#staging.removeImport(importId).catch(() => undefined)
    }
  }
}

function refuseWhenFull(error: unknown): never {
  if (!isStagingFull(error)) throw error
  throw new RequestError('internal_error', noSpaceRefusal, { status: 507, retryAfter: 60, cause: error })
}

export const noSpaceRefusal =
  'the disk where content is kept before it is imported has too little space left, and nothing was created: send the request again later, or tell the operator'
