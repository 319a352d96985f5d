import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { promisify } from 'node:util'
import { inBlocks } from './in-blocks.ts'
import type { StagedFile, Staging } from './staging.ts'

/**
 * Inline content lies packed in the staging: its import may be scheduled for years ahead, and a body of a few kilobytes
 * may unpack to 64 MB. It is cut into blocks, each compressed by itself, so that it can be read from any position as
 * splitting reads it, with one block in memory:
 *
 *     block, block, ..., the blocks' packed lengths (4 bytes each), length of the content (8 bytes), mark (4 bytes)
 *
 * Each block has a checksum of zstd's own.
 */

/** Of the content; all blocks but the last one have it. */
const blockBytes = 256 * 1024
const mark = Buffer.from('RCP1')
const endBytes = 8 + mark.length

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)
const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
}

/** The content as it is stored. A block is taken from the content when the one before it is written. */
export async function* packed(content: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const lengths: number[] = []
  let size = 0
  for await (const block of inBlocks(content, blockBytes)) {
    size += block.length
    const bytes = await compress(block, compression)
    lengths.push(bytes.length)
    yield bytes
  }
  const end = Buffer.alloc(lengths.length * 4 + endBytes)
  for (const [i, length] of lengths.entries()) end.writeUInt32LE(length, i * 4)
  end.writeBigUInt64LE(BigInt(size), lengths.length * 4)
  mark.copy(end, end.length - mark.length)
  yield end
}

/** Name of an import's inline content, packed. */
export const stagedContent = (importId: number): string => `${importId}/content`

/** The staged source of that name as it is to be read, unpacked where it is packed. Null when there is none. */
export async function openSource(staging: Staging, name: string): Promise<StagedFile | null> {
  const file = await staging.open(name)
  if (file === null || !name.endsWith('/content')) return file
  try {
    return await unpackedFile(file, name)
  } catch (error) {
    await file.close()
    throw error
  }
}

async function unpackedFile(file: StagedFile, name: string): Promise<StagedFile> {
  const damaged = () => new Error(`the staged content ${name} is damaged: was it written into?`)
  const bytesAt = async (position: number, length: number): Promise<Buffer> => {
    if (position < 0) throw damaged()
    const bytes = Buffer.allocUnsafeSlow(length)
    if ((await file.read(bytes, position)) < length) throw damaged()
    return bytes
  }
  const end = await bytesAt(file.size - endBytes, endBytes)
  if (!end.subarray(8).equals(mark)) throw damaged()
  const size = Number(end.readBigUInt64LE(0))
  const count = Math.ceil(size / blockBytes)
  const lengths = await bytesAt(file.size - endBytes - count * 4, count * 4)
  const starts = [0]
  for (let i = 0; i < count; i += 1) starts.push(starts[i]! + lengths.readUInt32LE(i * 4))

  let last: { index: number; bytes: Buffer } | null = null
  const blockAt = async (index: number): Promise<Buffer> => {
    if (last?.index === index) return last.bytes
    const stored = await bytesAt(starts[index]!, starts[index + 1]! - starts[index]!)
    const bytes = await decompress(stored, { maxOutputLength: blockBytes })
    if (bytes.length !== Math.min(blockBytes, size - index * blockBytes)) throw damaged()
    last = { index, bytes }
    return bytes
  }
  return {
    size,
    async read(target, position) {
      const length = Math.max(0, Math.min(target.length, size - position))
      for (let done = 0; done < length;) {
        const at = position + done
        const block = await blockAt(Math.floor(at / blockBytes))
        const part = block.subarray(at % blockBytes, (at % blockBytes) + length - done)
        target.set(part, done)
        done += part.length
      }
      return length
    },
    close: () => file.close(),
  }
}
