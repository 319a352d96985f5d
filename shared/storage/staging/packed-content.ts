import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { promisify } from 'node:util'
import { equalPieces } from './equal-pieces.ts'
import { ImportError } from '../../contract/errors.ts'
import type { StagedFile, Staging } from './staging.ts'

/**
 * Inline content is compressed in the staging, because its import may be scheduled for years ahead, and a compressed
 * body of a few kilobytes may bring 64 MB. Each piece is compressed by itself, so that splitting can read from any
 * position with one piece in memory:
 *     piece, piece, ..., the pieces' packed lengths (4 bytes each), length of the content (8 bytes), mark (4 bytes)
 * Each piece has a checksum of zstd.
 */

/** Size of an unpacked piece; only the last one may be smaller. */
const pieceBytes = 256 * 1024
const mark = Buffer.from('RCP1')
const endBytes = 8 + mark.length

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)
const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
}

/** Yields the content as it is stored. Each piece is read from the content after the one before it was written. */
export async function* packed(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const lengths: number[] = []
  let size = 0
  for await (const piece of equalPieces(content, pieceBytes)) {
    size += piece.length
    const bytes = await compress(piece, compression)
    lengths.push(bytes.length)
    yield bytes
  }
  const end = Buffer.alloc(lengths.length * 4 + endBytes)
  for (const [i, length] of lengths.entries()) end.writeUInt32LE(length, i * 4)
  end.writeBigUInt64LE(BigInt(size), lengths.length * 4)
  mark.copy(end, end.length - mark.length)
  yield end
}

/** Name of the packed inline content of an import. */
export const stagedContent = (importId: number): string => `${importId}/content`

/** Opens a staged source, and unpacks it on reading where it is packed. Null when there is none. */
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

/** The same. Throws ImportError `source_missing` when there is none. */
export async function requireSource(staging: Staging, name: string): Promise<StagedFile> {
  const file = await openSource(staging, name)
  if (file !== null) return file
  throw new ImportError('source_missing', 'the staged file is gone: was DATA_DIR/staging emptied?', {
    isMissing: true,
  })
}

async function unpackedFile(file: StagedFile, name: string): Promise<StagedFile> {
  const damaged = () =>
    new Error(`the staged content ${name} is damaged: another program may have changed it`)
  const bytesAt = async (position: number, length: number): Promise<Buffer> => {
    if (position < 0) throw damaged()
    const bytes = Buffer.allocUnsafeSlow(length)
    if ((await file.read(bytes, position)) < length) throw damaged()
    return bytes
  }
  const end = await bytesAt(file.size - endBytes, endBytes)
  if (!end.subarray(8).equals(mark)) throw damaged()
  const size = Number(end.readBigUInt64LE(0))
  const count = Math.ceil(size / pieceBytes)
  const lengths = await bytesAt(file.size - endBytes - count * 4, count * 4)
  const pieces: { start: number; length: number }[] = []
  for (let i = 0, start = 0; i < count; i += 1) {
    const length = lengths.readUInt32LE(i * 4)
    pieces.push({ start, length })
    start += length
  }

  let last: { index: number; bytes: Buffer } | null = null
  const pieceAt = async (index: number): Promise<Buffer> => {
    if (last?.index === index) return last.bytes
    const piece = pieces[index]
    if (piece === undefined) throw damaged()
    const stored = await bytesAt(piece.start, piece.length)
    const bytes = await decompress(stored, { maxOutputLength: pieceBytes })
    if (bytes.length !== Math.min(pieceBytes, size - index * pieceBytes)) throw damaged()
    last = { index, bytes }
    return bytes
  }
  return {
    size,
    async read(target, position) {
      const length = Math.max(0, Math.min(target.length, size - position))
      for (let done = 0; done < length;) {
        const at = position + done
        const piece = await pieceAt(Math.floor(at / pieceBytes))
        const taken = piece.subarray(at % pieceBytes, (at % pieceBytes) + length - done)
        target.set(taken, done)
        done += taken.length
      }
      return length
    },
    close: () => file.close(),
  }
}
