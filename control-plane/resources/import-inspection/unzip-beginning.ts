import { Readable } from 'node:stream'
import { decompress } from '../../../shared/containers/decompress.ts'
import { requireReadable, shortName, ZipFiles } from '../../../shared/containers/zip.ts'

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
export async function* unzipBeginning(bytes: Buffer, what: string): AsyncGenerator<Buffer> {
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
