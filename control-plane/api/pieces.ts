import type { Writable } from 'node:stream'
import type { Response } from 'express'
import { clock } from '../../shared/runtime/clock.ts'

/**
 * JSON is made and written in pieces of this size, so that other requests wait for no more in a round of the event
 * loop.
 */
export const pieceBytes = 64 * 1024
/** The pause after a piece is this multiple of its duration, so that large replies get a quarter of the event loop. */
const restFactor = 3

/** Shares the event loop of the process among large replies and bodies: one of them at a time makes a piece. */
export class PiecePacer {
  readonly #waiting: (() => void)[] = []
  #restUntil = 0

  /**
   * Resolves when the caller may make or write the next piece. The event loop is free between two pieces, so that
   * other requests are hardly slower, however many large replies are made.
   */
  nextPiece(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      if (this.#waiting.length === 1) this.#wakeNextAfter(this.#restUntil - clock.monotonicMs())
    })
  }

  #wakeNextAfter(ms: number): void {
    const wakeNext = () => this.#wakeNext()
    if (ms > 0) setTimeout(wakeNext, ms)
    else setImmediate(wakeNext)
  }

  #wakeNext(): void {
    const startedAt = clock.monotonicMs()
    this.#waiting[0]?.()
    // The caller makes its piece before this callback runs.
    setImmediate(() => {
      const restMs = restFactor * (clock.monotonicMs() - startedAt)
      this.#restUntil = clock.monotonicMs() + restMs
      this.#waiting.shift()
      if (this.#waiting.length > 0) this.#wakeNextAfter(restMs)
    })
  }
}

/** Writes pieces as the client reads them (back-pressure), so that they don't fill the connection's buffer. */
export async function writePieces(
  response: Response,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  onPiece: () => void = () => undefined,
): Promise<void> {
  for await (const piece of pieces) {
    if (response.destroyed) return
    const hasCapacity = response.write(piece)
    onPiece()
    if (!hasCapacity) await waitForDrain(response)
  }
  response.end()
}

/** Resolves when the stream can take more, or is closed. */
export function waitForDrain(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done)
      resolve()
    }
    stream.once('drain', done).once('close', done)
  })
}
