import type { RandomAccessFile } from '../../../shared/containers/random-access-file.ts'
import { Readable } from 'node:stream'
import {
  findContainer,
  maxContainers,
  type ContainerKind,
} from '../../../shared/containers/container-kind.ts'
import { decompress } from '../../../shared/containers/decompress.ts'
import { tooManyContainers } from '../../../shared/containers/unpack.ts'
import { unzip } from '../../../shared/containers/zip.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'
import { unzipBeginning } from './unzip-beginning.ts'

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

/** Of a zip without its directory the beginning is read by the headers before its files. */
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
