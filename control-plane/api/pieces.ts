import type { Response } from 'express'
import { clock } from '../../shared/runtime/clock.ts'

/**
 * JSON is made and written in pieces of this size, so that other requests wait for no more in a round of the event
 * loop.
 */
export const pieceBytes = 64 * 1024
/** The pause after a piece is this multiple of its duration, so that large replies get a quarter of the event loop. */
const restFactor = 3

const waiting: (() => void)[] = []
let restUntil = 0

/**
 * Resolves when the caller may make or write the next piece of a large reply; one caller at a time may. The event loop
 * is free between two pieces, so that other requests are hardly slower, however many large replies are made.
 */
export function nextPiece(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) wakeNextAfter(restUntil - clock.monotonicMs())
  })
}

function wakeNextAfter(ms: number): void {
  if (ms > 0) setTimeout(wakeNext, ms)
  else setImmediate(wakeNext)
}

function wakeNext(): void {
  const startedAt = clock.monotonicMs()
  waiting[0]?.()
  // The caller makes its piece before this callback runs.
  setImmediate(() => {
    const restMs = restFactor * (clock.monotonicMs() - startedAt)
    restUntil = clock.monotonicMs() + restMs
    waiting.shift()
    if (waiting.length > 0) wakeNextAfter(restMs)
  })
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

/** Resolves when the client has read what was written, or has gone. */
function waitForDrain(response: Response): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.once('drain', done).once('close', done)
  })
}
