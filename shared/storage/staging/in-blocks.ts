/**
 * Regroups pieces of any size into blocks of `blockBytes` bytes; the last one may be shorter. Empty content has no
 * block. The buffer of a block is reused for the next one.
 */
export async function* inBlocks(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  blockBytes: number,
): AsyncGenerator<Buffer> {
  const block = Buffer.allocUnsafeSlow(blockBytes)
  let fill = 0
  for await (const piece of content) {
    for (let at = 0; at < piece.length;) {
      const part = piece.subarray(at, at + blockBytes - fill)
      block.set(part, fill)
      fill += part.length
      at += part.length
      if (fill < blockBytes) continue
      yield block
      fill = 0
    }
  }
  if (fill > 0) yield block.subarray(0, fill)
}
