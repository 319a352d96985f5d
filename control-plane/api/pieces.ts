import type { Response } from 'express'

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
