/**
 * Yields the content in pieces of `size` bytes, however it arrives; the last one may be shorter. Empty content has no
 * piece. The buffer of a piece is reused for the next one.
 */
export async function* equalPieces(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  size: number,
): AsyncGenerator<Buffer> {
  const piece = Buffer.allocUnsafeSlow(size)
  let fill = 0
  for await (const arrived of content) {
    for (let at = 0; at < arrived.length;) {
      const taken = arrived.subarray(at, at + size - fill)
      piece.set(taken, fill)
      fill += taken.length
      at += taken.length
      if (fill < size) continue
      yield piece
      fill = 0
    }
  }
  if (fill > 0) yield piece.subarray(0, fill)
}
