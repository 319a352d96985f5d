import type { RandomAccessFile } from '../../../shared/containers/random-access-file.ts'
import { Readable } from 'node:stream'
import {
  findContainer,
  maxContainers,
  type ContainerKind,
} from '../../../shared/containers/container-kind.ts'
import { decompress } from '../../../shared/containers/decompress.ts'
import { tooManyContainers } from '../../../shared/containers/unpack.ts'
import { requireReadable, shortName, unzip, ZipFiles } from '../../../shared/containers/zip.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'

interface UnpackSampleOptions {
  /** Names the file in messages. */
  what: string
  signal: AbortSignal
  /** Limits what is read of the content. */
  maxBytes: number
  /** The packed file, where it can be read at any position. */
  file?: RandomAccessFile | undefined
}

/** What a sample unpacks to, cut like every sample. Throws ImportErrors as an import would. */
export async function unpackSample(sample: Sample, options: UnpackSampleOptions): Promise<Sample> {
  let unpacked = sample
  for (let depth = 0; ; depth += 1) {
    const kind = findContainer(unpacked.bytes)
    if (kind === null) return unpacked
    if (depth === maxContainers) throw tooManyContainers(options.what)
    const file = depth === 0 ? options.file : undefined
    const { isWhole } = unpacked
    const content = unpackStart(unpacked, kind, { ...options, file })
    unpacked = await readBeginning(content, options.maxBytes)
    if (file === undefined && !isWhole) unpacked.isWhole = false
  }
}

/** Unpacks the beginning. A zip that is cut has no directory, and is read by the headers before its files. */
function unpackStart(
  { bytes, isWhole }: Sample,
  kind: ContainerKind,
  { what, signal, file }: UnpackSampleOptions,
): AsyncIterable<Buffer> {
  if (kind !== 'zip') return decompress(Readable.from([bytes]), kind, { what, isCut: !isWhole })
  if (file !== undefined) return unzip(file, { what, signal })
  return isWhole ? unzip(fileOf(bytes), { what, signal }) : unzipBeginning(bytes, what)
}

const fileOf = (bytes: Buffer): RandomAccessFile => ({
  size: bytes.length,
  read: (target, position) => Promise.resolve(bytes.copy(target, 0, position)),
})

/** Reads up to that many bytes. What was read before an error is in `received`. */
export async function readBeginning(
  pieces: AsyncIterable<Buffer>,
  max: number,
  { received = [], onEnough = () => undefined }: { received?: Buffer[]; onEnough?: () => void } = {},
): Promise<Sample> {
  let length = 0
  for await (const piece of pieces) {
    received.push(piece)
    length += piece.length
    if (length < max) continue
    onEnough()
    return { bytes: Buffer.concat(received).subarray(0, max), isWhole: false }
  }
  return { bytes: Buffer.concat(received), isWhole: true }
}

// ---- a zip without its directory ----

/** A file in the beginning of a zip. Its data ends at `end`, or where the beginning ends. */
interface LocalFile {
  name: string
  flags: number
  method: number
  start: number
  end: number
}

const headerBytes = 30
const headerSignature = Buffer.from('504b0304', 'hex')

/**
 * Unpacks the beginning of the one file in the beginning of a zip, by the headers before the files. Throws ImportErrors
 * for what it sees of the zip; only the directory at its end would tell all.
 */
async function* unzipBeginning(bytes: Buffer, what: string): AsyncGenerator<Buffer> {
  const files = new ZipFiles<LocalFile>(what)
  for (const file of readHeaders(bytes)) files.add(file.name, file)
  const file = files.only(bytes)
  requireReadable(what, file)
  const data = bytes.subarray(file.start, file.end)
  if (file.method === 0) yield data
  else yield* decompress(Readable.from([data]), 'deflate', { what, isCut: true })
}

function* readHeaders(bytes: Buffer): Generator<LocalFile> {
  let at = bytes.indexOf(headerSignature)
  while (at !== -1 && at + headerBytes <= bytes.length) {
    const flags = bytes.readUInt16LE(at + 6)
    const size = bytes.readUInt32LE(at + 18)
    const nameEnd = at + headerBytes + bytes.readUInt16LE(at + 26)
    const start = nameEnd + bytes.readUInt16LE(at + 28)
    if (start > bytes.length) return
    // Without a size before the data, or with one of Zip64, the data ends where the next header begins.
    const end = (flags & 0x8) === 0 && size !== 0xffffffff ? start + size : null
    const next = bytes.indexOf(headerSignature, end ?? start)
    yield {
      name: shortName(bytes.subarray(at + headerBytes, nameEnd), flags),
      flags,
      method: bytes.readUInt16LE(at + 8),
      start,
      end: end ?? (next === -1 ? bytes.length : next),
    }
    at = next
  }
}
