import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'

/**
 * Delays the end of a connection until its reader has caught up. Otherwise undici 7.30 fails when the server closes the
 * connection before the body is read: it drops its buffer, although all of the Content-Length has come, and after
 * "Connection: close" an assertion of its own ends the process. With 5 ms for the write of each piece, 20 of 20 downloads
 * of 3 MB failed; a larger buffer would only move the size at which it happens. A slow staging costs 2 to 26 MB. Once the
 * reader has caught up, the body is complete, or the end of the connection completes it.
 */
export class DelayedEnd {
  #body: Readable | null = null
  #emitEnd: (() => unknown) | null = null

  /** Must be called before any other listener is added to the socket. */
  delay(socket: Socket): void {
    const emit = socket.emit.bind(socket) as (event: string, ...args: unknown[]) => boolean
    socket.emit = (event: string, ...args: unknown[]): boolean => {
      if (event !== 'end') return emit(event, ...args)
      // A destroyed socket must not emit `end`.
      this.#emitEnd = () => socket.destroyed || emit(event, ...args)
      this.#endWhenRead()
      return true
    }
  }

  async *read(body: Readable): AsyncGenerator<Buffer> {
    this.#body = body
    const pieces: AsyncIterable<Buffer> = body
    for await (const piece of pieces) {
      yield piece
      this.#endWhenRead()
    }
  }

  /** Waits one round of the event loop: the last piece may complete the body, and `read` may not have begun yet. */
  #endWhenRead(): void {
    if (this.#emitEnd === null) return
    setImmediate(() => {
      if (this.#body !== null && this.#body.readableLength > 0 && !this.#body.destroyed) return
      this.#emitEnd?.()
      this.#emitEnd = null
    })
  }
}
