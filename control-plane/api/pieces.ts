import type { Response } from 'express'
import { clock } from '../../shared/runtime/clock.ts'

/** Of JSON that is made or written at once: other requests wait for no more than that in a turn of the event loop. */
export const pieceBytes = 64 * 1024
/** After a piece none is made for so many times as long as it took: large replies get a quarter of the event loop. */
const restFactor = 3

const waiting: (() => void)[] = []
let restUntil = 0

/**
 * Resolves when the caller may make or write the next piece of a large reply, one caller at a time. Between two pieces
 * the event loop is free for a while, so that other requests hardly feel how many large replies are made.
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
  waiting[0]!()
  // The piece is made before that.
  setImmediate(() => {
    const restMs = restFactor * (clock.monotonicMs() - startedAt)
    restUntil = clock.monotonicMs() + restMs
    waiting.shift()
    if (waiting.length > 0) wakeNextAfter(restMs)
  })
}

/** Writes pieces as the client takes them: what is not taken stays with the caller, and not in the connection's buffer. */
export async function writePieces(
  response: Response,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  onPiece: () => void = () => undefined,
): Promise<void> {
  for await (const piece of pieces) {
    if (response.destroyed) return
    const isTaken = response.write(piece)
    onPiece()
    if (!isTaken) await drained(response)
  }
  response.end()
}

/** Resolves when the client has taken what was written, or is gone. */
function drained(response: Response): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.once('drain', done).once('close', done)
  })
}
