import type { Writable } from 'node:stream'
import type { Response } from 'express'

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
function waitForDrain(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done)
      resolve()
    }
    stream.once('drain', done).once('close', done)
  })
}
