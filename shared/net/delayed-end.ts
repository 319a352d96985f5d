import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'

/**
 * Delays the end of a connection while its reader is behind. undici 8.12 drops what it still holds of a body, and
 * fails, when the server closes the connection meanwhile without having said "Connection: close", although all bytes of
 * the Content-Length came: 20 of 20 downloads of 3 MB, with 5 ms of writing a piece. When the reader has caught up, the
 * body is complete, or the end is the news that it is.
 */
export class DelayedEnd {
  #body: Readable | null = null
  #tell: (() => unknown) | null = null

  /** Must be called before any other listener is added to the socket. */
  delay(socket: Socket): void {
    const emit = socket.emit.bind(socket) as (event: string, ...args: unknown[]) => boolean
    socket.emit = (event: string, ...args: unknown[]): boolean => {
      if (event !== 'end') return emit(event, ...args)
      // A socket that was destroyed has no listener to tell.
      this.#tell = () => socket.destroyed || emit(event, ...args)
      this.#endWhenRead()
      return true
    }
  }

  async *read(body: Readable): AsyncGenerator<Buffer> {
    this.#body = body
    for await (const piece of body) {
      yield piece as Buffer
      this.#endWhenRead()
    }
  }

  /** Not at once: what was read last may complete the body, and an answer that just came may not be in hand yet. */
  #endWhenRead(): void {
    if (this.#tell === null) return
    setImmediate(() => {
      if (this.#body !== null && this.#body.readableLength > 0 && !this.#body.destroyed) return
      this.#tell?.()
      this.#tell = null
    })
  }
}
