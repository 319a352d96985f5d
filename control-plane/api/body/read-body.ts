import type { IncomingMessage } from 'node:http'
import { Piscina } from 'piscina'
import type { Part } from '../../../shared/runtime/service.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import { RequestError } from '../request-error.ts'
import { basePath } from '../scope.ts'
import { bodyPieces } from './body-pieces.ts'
import type { WorkerReply } from './body-worker.ts'
import { parseBody, type InlineText, type ParsedBody, type SentBody } from './parse-body.ts'

/** A body up to this size needs no place among the large ones, so that small requests never wait for large ones. */
const smallBytes = 4 * 1024
/**
 * A body with an inline text of more than this is parsed in a worker thread: 16 MiB would block this one for 300 ms. Other
 * bodies have a megabyte at most, and all their values would have to be copied from the thread.
 */
const maxBytesHere = 256 * 1024

export const largerHint = `: send what is larger by PUT ${basePath}/uploads/NAME, and import it with the file_source {"type": "upload_directory", "filename": "NAME"}`

interface BodyBounds {
  inlineText?: InlineText | undefined
  stopping: AbortSignal
  /** Waits until a body that isn't small may be read further. */
  admitLarge: () => Promise<void>
}

/** Reads and parses the bodies of requests. */
export class BodyReader implements Part {
  readonly #maxInlineBytes: number
  /** One body after the other, so that only one is in memory as bytes, text and content at once. */
  readonly #worker = new Piscina<SentBody, WorkerReply>({
    filename: new URL('./body-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: 60_000,
  })

  constructor({ HTTP_INLINE_LIMIT_MB }: { HTTP_INLINE_LIMIT_MB: number }) {
    this.#maxInlineBytes = HTTP_INLINE_LIMIT_MB * binaryMegabyte
  }

  /**
   * Reads a body of at most 1 MiB, or HTTP_INLINE_LIMIT_MB with an inline text. Throws `invalid_request`, 413, 503 when
   * the process stops before the body has arrived, and the errors of `admitLarge`.
   */
  async read(
    request: IncomingMessage,
    { inlineText, stopping, admitLarge }: BodyBounds,
  ): Promise<ParsedBody> {
    const [limit, hint] = inlineText === undefined ? [binaryMegabyte] : [this.#maxInlineBytes, largerHint]
    const pieces: Uint8Array<ArrayBuffer>[] = []
    let size = 0
    for await (const piece of bodyPieces(request, limit, { stopping }, hint)) {
      if (size <= smallBytes && size + piece.length > smallBytes) await admitLarge()
      size += piece.length
      // A copy: a piece may be a small part of a large buffer.
      pieces.push(new Uint8Array(piece))
    }
    const isParsedHere = inlineText === undefined || size <= maxBytesHere
    return isParsedHere ? parseBody({ pieces, inlineText }) : this.#parseInWorker({ pieces, inlineText })
  }

  async #parseInWorker(sent: SentBody & { pieces: Uint8Array<ArrayBuffer>[] }): Promise<ParsedBody> {
    const transferList = sent.pieces.map(({ buffer }) => buffer)
    // Piscina derives the list's type from an overload of postMessage that takes options instead.
    const reply = await this.#worker.run(sent, { transferList: transferList as object })
    if ('body' in reply) return reply.body
    const { code, message, status } = reply.refusal
    throw new RequestError(code, message, { status })
  }

  async stop(): Promise<void> {
    await this.#worker.destroy()
  }
}
