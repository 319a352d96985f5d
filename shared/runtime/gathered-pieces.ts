import { finished, type Readable } from 'node:stream'

const maxGatheredBytes = 64 * 1024
/** Fewer bytes are passed on after this time, because a sender may pause for minutes. */
const maxGatheredMs = 200
/** This number of small pieces is copied into one, because each takes some 300 bytes beside its own. */
const maxPieces = 256

/**
 * Streams what arrives in pieces of about 64 KiB. A sender of single bytes then costs the reader a piece every 200 ms,
 * and not one for each byte. When the stream fails, what came before is passed on first. Throws the stream's
 * error, and `signal`'s reason at once when that is aborted. Ending the iteration early pauses the stream.
 */
export async function* gatheredPieces(stream: Readable, signal?: AbortSignal): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = []
  let size = 0
  let isDue = false
  let timer: NodeJS.Timeout | undefined
  const end: { isReached: boolean; error?: Error } = { isReached: false }
  let wake = (): void => undefined

  const add = (piece: Buffer): void => {
    if (size === 0)
      timer = setTimeout(() => {
        isDue = true
        wake()
      }, maxGatheredMs)
    size += piece.length
    if (pieces.push(piece) === maxPieces) pieces = [Buffer.concat(pieces)]
    if (size < maxGatheredBytes) return
    stream.pause()
    wake()
  }
  const take = (): Buffer => {
    clearTimeout(timer)
    const taken = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
    pieces = []
    size = 0
    isDue = false
    stream.resume()
    return taken
  }
  const onAbort = (): void => wake()
  const unlisten = finished(stream, { writable: false }, (error) => {
    Object.assign(end, { isReached: true, error: error ?? undefined })
    wake()
  })
  // The stream may have been paused before.
  stream.on('data', add).resume()
  signal?.addEventListener('abort', onAbort)
  try {
    for (;;) {
      signal?.throwIfAborted()
      if (size >= maxGatheredBytes || (size > 0 && (isDue || end.isReached))) yield take()
      else if (!end.isReached) await new Promise<void>((resolve) => (wake = resolve))
      else break
    }
  } finally {
    clearTimeout(timer)
    unlisten()
    stream.off('data', add)
    signal?.removeEventListener('abort', onAbort)
    if (!end.isReached) stream.pause()
  }
  if (end.error !== undefined) throw end.error
}
