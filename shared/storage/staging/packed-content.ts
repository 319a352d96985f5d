import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { ImportError } from '../../contract/errors.ts'
import type { ImportDocument } from '../../contract/schemas/import.ts'
import { MemoryFile } from './memory-file.ts'
import type { StagedFile, Staging } from './staging.ts'

/**
 * Inline content is compressed in its import's document or the staging, because its import may be scheduled for years
 * ahead, and a compressed body of a few kilobytes may bring 64 MB. Each piece is compressed by itself, so that splitting
 * can read from any position with one piece in memory:
 *     piece, piece, ..., the pieces' packed lengths (4 bytes each), length of the content (8 bytes), mark (4 bytes)
 * Each piece has a checksum of zstd.
 */

/** Size of an unpacked piece; only the last one may be smaller. */
const pieceBytes = 256 * 1024
const mark = Buffer.from('RCP1')
const endBytes = 8 + mark.length

const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
}

/** The content as it is stored. Compressing is synchronous: 52 KB take 0.14 ms of CPU, and 0.4 with the thread pool. */
export function packed(content: Buffer): Buffer {
  const pieces: Buffer[] = []
  for (let at = 0; at < content.length; at += pieceBytes)
    pieces.push(zstdCompressSync(content.subarray(at, at + pieceBytes), compression))
  const end = Buffer.alloc(pieces.length * 4 + endBytes)
  for (const [i, { length }] of pieces.entries()) end.writeUInt32LE(length, i * 4)
  end.writeBigUInt64LE(BigInt(content.length), pieces.length * 4)
  mark.copy(end, end.length - mark.length)
  return Buffer.concat([...pieces, end])
}

/** Name of the packed inline content of an import. */
export const stagedContent = (importId: number): string => `${importId}/content`

/** Content of up to this size is in its import's document, and in no file. */
export const maxBytesInDocument = 64 * 1024

/** The staging, in which the content in the import's document is a file too. */
export const withContent = (
  staging: Staging,
  { _id, content }: Pick<ImportDocument, '_id' | 'content'>,
): Staging =>
  content === undefined
    ? staging
    : {
        ...staging,
        open: (name) =>
          name === stagedContent(_id) ? Promise.resolve(new MemoryFile(content)) : staging.open(name),
      }

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

  let last: { index: number; bytes: Promise<Buffer> } | null = null
  // Reads side by side share a piece. One that can't be read is read again.
  const pieceAt = (index: number): Promise<Buffer> => {
    if (last?.index === index) return last.bytes
    const unpacked = (last = { index, bytes: unpackPiece(index) })
    unpacked.bytes.catch(() => {
      if (last === unpacked) last = null
    })
    return unpacked.bytes
  }
  const unpackPiece = async (index: number): Promise<Buffer> => {
    const piece = pieces[index]
    if (piece === undefined) throw damaged()
    const stored = await bytesAt(piece.start, piece.length)
    const bytes = zstdDecompressSync(stored, { maxOutputLength: pieceBytes })
    if (bytes.length !== Math.min(pieceBytes, size - index * pieceBytes)) throw damaged()
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
