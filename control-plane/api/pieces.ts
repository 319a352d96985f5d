import type { Response } from 'express'

/** Of JSON that is made or written at once: others wait for no more than that in a turn of the event loop. */
export const pieceBytes = 64 * 1024

const waiting: (() => void)[] = []

/**
 * Resolves in a later turn of the event loop, and one caller in each: however many large replies are made at once,
 * other requests wait for one piece of them between two of their own steps.
 */
export function nextPiece(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) setImmediate(wakeNext)
  })
}

function wakeNext(): void {
  waiting.shift()!()
  if (waiting.length > 0) setImmediate(wakeNext)
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
