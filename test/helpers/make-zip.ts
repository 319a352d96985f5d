import { crc32, deflateRawSync } from 'node:zlib'

export interface ZippedFile {
  name: string | Buffer
  content?: Buffer | string
  /** Deflate by default. */
  method?: number
  flags?: number
  /** Another checksum than that of the content. */
  checksum?: number
  /** The sizes follow the data, as in zips that were written to a stream. */
  streamed?: boolean
  /** Sizes and offsets of 8 bytes. */
  zip64?: boolean
  /** The packed data, where it isn't that of the content. */
  packed?: Buffer
  /** The size that the directory gives for the packed content. */
  size?: number
}

export interface ZipOptions {
  comment?: string
  /** The number of this part, for a zip in several. */
  disk?: number
  /** Bytes of zeros or others behind the end. */
  tail?: Buffer
}

const full = 0xffffffff

/** A zip with these files, written by hand to the format's description (APPNOTE.TXT of PKWARE). */
export function makeZip(files: ZippedFile[], { comment = '', disk = 0, tail }: ZipOptions = {}): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const file of files) {
    const bytes = localPart(file)
    directory.push(directoryEntry(file, offset))
    parts.push(bytes)
    offset += bytes.length
  }
  const entries = Buffer.concat(directory)
  const needs64 = files.some(({ zip64 }) => zip64 === true)
  const end64 = needs64 ? zip64End(files.length, entries.length, offset) : Buffer.alloc(0)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50)
  end.writeUInt16LE(disk, 4)
  end.writeUInt16LE(needs64 ? 0xffff : files.length, 8)
  end.writeUInt16LE(needs64 ? 0xffff : files.length, 10)
  end.writeUInt32LE(needs64 ? full : entries.length, 12)
  end.writeUInt32LE(needs64 ? full : offset, 16)
  end.writeUInt16LE(comment.length, 20)
  return Buffer.concat([...parts, entries, end64, end, Buffer.from(comment), tail ?? Buffer.alloc(0)])
}

interface Fields {
  name: Buffer
  content: Buffer
  data: Buffer
  method: number
  flags: number
  checksum: number
  size: number
}

function fieldsOf(file: ZippedFile): Fields {
  const content = Buffer.from(file.content ?? '')
  const method = file.method ?? (content.length === 0 ? 0 : 8)
  return {
    name: Buffer.from(file.name),
    content,
    data: file.packed ?? (method === 8 ? deflateRawSync(content) : content),
    method,
    flags: (file.flags ?? 0) | (file.streamed === true ? 8 : 0),
    checksum: file.checksum ?? crc32(content),
    size: file.size ?? content.length,
  }
}

function localPart(file: ZippedFile): Buffer {
  const { name, data, method, flags, checksum, size } = fieldsOf(file)
  const header = Buffer.alloc(30)
  header.writeUInt32LE(0x04034b50)
  header.writeUInt16LE(20, 4)
  header.writeUInt16LE(flags, 6)
  header.writeUInt16LE(method, 8)
  header.writeUInt16LE(name.length, 26)
  const sizes = Buffer.alloc(12)
  sizes.writeUInt32LE(checksum)
  sizes.writeUInt32LE(data.length, 4)
  sizes.writeUInt32LE(size, 8)
  if (file.streamed === true)
    return Buffer.concat([header, name, data, Buffer.from('504b0708', 'hex'), sizes])
  if (file.zip64 !== true) {
    sizes.copy(header, 14)
    return Buffer.concat([header, name, data])
  }
  const extra = Buffer.alloc(20)
  extra.writeUInt16LE(1)
  extra.writeUInt16LE(16, 2)
  extra.writeBigUInt64LE(BigInt(size), 4)
  extra.writeBigUInt64LE(BigInt(data.length), 12)
  header.writeUInt32LE(checksum, 14)
  header.writeUInt32LE(full, 18)
  header.writeUInt32LE(full, 22)
  header.writeUInt16LE(extra.length, 28)
  return Buffer.concat([header, name, extra, data])
}

function directoryEntry(file: ZippedFile, offset: number): Buffer {
  const { name, data, method, flags, checksum, size } = fieldsOf(file)
  const is64 = file.zip64 === true
  const extra = Buffer.alloc(is64 ? 28 : 0)
  if (is64) {
    extra.writeUInt16LE(1)
    extra.writeUInt16LE(24, 2)
    extra.writeBigUInt64LE(BigInt(size), 4)
    extra.writeBigUInt64LE(BigInt(data.length), 12)
    extra.writeBigUInt64LE(BigInt(offset), 20)
  }
  const entry = Buffer.alloc(46)
  entry.writeUInt32LE(0x02014b50)
  entry.writeUInt16LE(20, 6)
  entry.writeUInt16LE(flags, 8)
  entry.writeUInt16LE(method, 10)
  entry.writeUInt32LE(checksum, 16)
  entry.writeUInt32LE(is64 ? full : data.length, 20)
  entry.writeUInt32LE(is64 ? full : size, 24)
  entry.writeUInt16LE(name.length, 28)
  entry.writeUInt16LE(extra.length, 30)
  entry.writeUInt32LE(is64 ? full : offset, 42)
  return Buffer.concat([entry, name, extra])
}

/** The end record of Zip64, and its locator. */
function zip64End(count: number, directoryBytes: number, directoryStart: number): Buffer {
  const end = Buffer.alloc(56 + 20)
  end.writeUInt32LE(0x06064b50)
  end.writeBigUInt64LE(44n, 4)
  end.writeUInt16LE(45, 12)
  end.writeUInt16LE(45, 14)
  end.writeBigUInt64LE(BigInt(count), 24)
  end.writeBigUInt64LE(BigInt(count), 32)
  end.writeBigUInt64LE(BigInt(directoryBytes), 40)
  end.writeBigUInt64LE(BigInt(directoryStart), 48)
  end.writeUInt32LE(0x07064b50, 56)
  end.writeBigUInt64LE(BigInt(directoryStart + directoryBytes), 64)
  end.writeUInt32LE(1, 72)
  return end
}
