/**
 * What arrives in pieces of any size, in blocks of `blockBytes` bytes, the last one shorter; none where nothing arrives.
 * The buffer of a block is used again for the next one.
 */
export async function* inBlocks(
  content: AsyncIterable<Uint8Array>,
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
