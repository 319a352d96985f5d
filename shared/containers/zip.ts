import { isUtf8 } from 'node:buffer'
import { crc32 } from 'node:zlib'
import yauzl, { type Entry } from 'yauzl'
import { ImportError, errorMessage } from '../contract/errors.ts'
import { findOfficeZip } from '../csv/no-table.ts'
import { decompress } from './decompress.ts'
import { readRange, type RandomAccessFile } from './random-access-file.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'

interface UnzipOptions {
  /** Names the file in messages. */
  what: string
  /** The name of the file that is wanted, where the zip may have several. */
  wanted?: string
  signal: AbortSignal
}

/**
 * Unpacks the one file in a zip, which is found through the directory at its end. Throws ImportError
 * `content_refused` for zips that imports don't take, `source_unreadable` for damaged ones, and the errors of `file`.
 */
export async function* unzip(file: RandomAccessFile, options: UnzipOptions): AsyncGenerator<Buffer> {
  const { what, wanted, signal } = options
  const reader = new DirectoryReader(file, signal)
  try {
    const end = await findEnd(file, what)
    const zip = await yauzl.fromRandomAccessReaderPromise(reader, end, {
      autoClose: false,
      // Names are no paths here, so they need not be valid.
      decodeStrings: false,
      validateEntrySizes: false,
    })
    const head = Buffer.alloc(Math.min(256, file.size))
    await file.read(head, 0)
    const files = new ZipFiles<Entry>(what, wanted)
    for await (const entry of zip.eachEntry()) {
      files.add(shortName(entry.fileNameRaw, entry.generalPurposeBitFlag), entry)
      if (files.isEnough) break
    }
    // The types of yauzl call this offset a boolean.
    if (!files.isEnough && (await hasEntryAt(file, Number(zip.readEntryCursor)))) throw hiddenFiles(what)
    const entry = files.only(head)
    requireReadable(what, { method: entry.compressionMethod, flags: entry.generalPurposeBitFlag })
    const { fileDataStart } = await zip.readLocalFileHeaderPromise(entry, { minimal: true })
    const packed = readRange(file, {
      start: fileDataStart,
      end: fileDataStart + entry.compressedSize,
      signal,
    })
    const pieces = entry.compressionMethod === 0 ? packed : decompress(packed, 'deflate', { what })
    yield* checked(pieces, entry, what)
  } catch (error) {
    throw reader.failure ?? (signal.aborted ? error : toImportError(error, what))
  }
}

function toImportError(error: unknown, what: string): unknown {
  // The errors of yauzl have no code; those of the file and of the system have one.
  if (!(error instanceof Error) || error.name !== 'Error' || 'code' in error) return error
  const message = errorMessage(error)
  if (message.startsWith('multi-disk')) return severalParts(what)
  if (message.startsWith('strong encryption')) return encrypted(what)
  return new ImportError('source_unreadable', `${what} is no intact zip file: ${message}`, { cause: error })
}

const severalParts = (what: string) =>
  new ImportError(
    'content_refused',
    `${what} is a part of a zip in several parts: pack the file into one zip`,
  )
const encrypted = (what: string) =>
  new ImportError('content_refused', `${what} is encrypted: pack the file into a zip without a password`)
const cutOff = (what: string) =>
  new ImportError(
    'source_unreadable',
    `${what} is cut off: the directory at the end of the zip is missing; transfer the whole file again`,
  )

const hiddenFiles = (what: string) =>
  new ImportError(
    'source_unreadable',
    `${what} is no intact zip file: its directory has more files than it says; pack the table anew`,
  )

const entrySignature = '504b0102'

/** Whether an entry of the directory begins there. */
async function hasEntryAt(file: RandomAccessFile, position: number): Promise<boolean> {
  const bytes = Buffer.alloc(4)
  return (await file.read(bytes, position)) === 4 && bytes.toString('hex') === entrySignature
}

const encryptionFlags = 0x2041

/** Throws for data that is encrypted or packed by an unknown method. */
export function requireReadable(what: string, { method, flags }: { method: number; flags: number }): void {
  if ((flags & encryptionFlags) !== 0 || method === 99) throw encrypted(what)
  if (method !== 0 && method !== 8)
    throw new ImportError(
      'content_refused',
      `${what} is packed by the method ${method} of zip, which imports don't unpack: pack the file with the usual method (deflate)`,
    )
}

/** Names that tell an Office file from other zips are among the first. */
const maxOfficeNames = 1_000
const maxShownNames = 10
const maxShownNameLength = 200

/** The entries of a zip, without directories, hidden files and what operating systems add. */
export class ZipFiles<T> {
  readonly #what: string
  readonly #allNames: string[] = []
  readonly #names: string[] = []
  readonly #wanted: string | undefined
  #only: T | null = null

  constructor(what: string, wanted?: string) {
    this.#what = what
    this.#wanted = wanted
  }

  add(name: string, entry: T): void {
    if (this.#allNames.length < maxOfficeNames) this.#allNames.push(name)
    if (isLeftOut(name)) return
    if (this.#wanted === undefined || this.#wanted === name) this.#only ??= entry
    if (this.#names.length <= maxShownNames) this.#names.push(name)
  }

  /** Whether further names can't change the result. */
  get isEnough(): boolean {
    const isKnown = this.#wanted === undefined || this.#only !== null
    return isKnown && this.#allNames.length >= maxOfficeNames && this.#names.length > maxShownNames
  }

  /** The only entry that is left. Throws for an Office file, which `head` may tell, and for none or several. */
  only(head: Buffer): T {
    const office = findOfficeZip(this.#allNames, head)
    if (office !== null) throw new ImportError('content_refused', office)
    if (this.#wanted !== undefined && this.#names.length > 0) {
      if (this.#only !== null) return this.#only
      throw new ImportError(
        'content_refused',
        `${this.#what} is a zip without ${JSON.stringify(this.#wanted)}. It has ${this.#shownNames}`,
      )
    }
    if (this.#only === null)
      throw new ImportError(
        'content_refused',
        `${this.#what} is a zip without a file: pack the table into it`,
      )
    if (this.#names.length === 1) return this.#only
    throw new ImportError(
      'content_refused',
      `${this.#what} is a zip with several files, of which an import takes one: pack each into a zip of its own. It has ${this.#shownNames}`,
    )
  }

  get #shownNames(): string {
    const shown = this.#names.slice(0, maxShownNames).map((name) => JSON.stringify(name))
    return `${shown.join(', ')}${this.#names.length > maxShownNames ? ' and more' : ''}`
  }
}

function isLeftOut(name: string): boolean {
  if (/[/\\]$/.test(name) || /^__MACOSX[/\\]/.test(name)) return true
  const segment = name.split(/[/\\]/).at(-1) ?? ''
  return segment.startsWith('.') || segment === 'Thumbs.db' || segment === 'desktop.ini'
}

/** A name for comparisons and messages. Its end decides what is left out, so long names lose their middle. */
export function shortName(raw: Buffer, flags: number): string {
  const isUtf8Name = (flags & 0x800) !== 0 || isUtf8(raw)
  const name = isUtf8Name ? raw.toString() : withoutSecondBackslashes(raw.toString('latin1'))
  return name.length <= maxShownNameLength ? name : `${name.slice(0, 100)}…${name.slice(-100)}`
}

/** In East Asian code pages a backslash may be the second byte of a character, as in 表.csv. It separates no folders. */
const withoutSecondBackslashes = (name: string): string =>
  name.replaceAll(/[\x81-\xfe][\x40-\xfe]/g, (character) => character.replace('\\', '_'))

const endBytes = 22
const endSignature = Buffer.from('504b0506', 'hex')

/** The offset behind the end record and its comment. Only zeros may follow. */
async function findEnd(file: RandomAccessFile, what: string): Promise<number> {
  const dataEnd = await findDataEnd(file)
  const start = Math.max(0, dataEnd - endBytes - 0xffff)
  // The end record may itself end with zeros. Bytes behind the file stay zeros here.
  const bytes = Buffer.alloc(dataEnd + endBytes - start)
  await file.read(bytes, start)
  let hasDataBehind = false
  for (
    let at = bytes.lastIndexOf(endSignature);
    at !== -1;
    at = at === 0 ? -1 : bytes.lastIndexOf(endSignature, at - 1)
  ) {
    const end = start + at + endBytes + bytes.readUInt16LE(at + 20)
    // The signature is in other data, or the comment is cut off.
    if (end > file.size) continue
    if (end < dataEnd) {
      hasDataBehind = true
      continue
    }
    const disks = [bytes.readUInt16LE(at + 4), bytes.readUInt16LE(at + 6)]
    if (disks.some((disk) => disk !== 0 && disk !== 0xffff)) throw severalParts(what)
    return end
  }
  const head = Buffer.alloc(4)
  await file.read(head, 0)
  if (head.toString('hex') === '504b0708') throw severalParts(what)
  if (hasDataBehind) throw new ImportError('source_unreadable', `${what} has data after the end of the zip`)
  throw cutOff(what)
}

/** The offset behind the last byte that isn't zero. */
async function findDataEnd(file: RandomAccessFile): Promise<number> {
  const piece = Buffer.alloc(pieceBytes)
  for (let end = file.size; end > 0;) {
    const start = Math.max(0, end - pieceBytes)
    const read = await file.read(piece.subarray(0, end - start), start)
    for (let at = read; at > 0; at -= 1) if (piece[at - 1] !== 0) return start + at
    end = start
  }
  return 0
}

const pieceBytes = binaryMegabyte

/** Passes the content on. Throws when its length or checksum isn't that of the directory. */
async function* checked(pieces: AsyncIterable<Buffer>, entry: Entry, what: string): AsyncGenerator<Buffer> {
  let length = 0
  let checksum = 0
  for await (const piece of pieces) {
    length += piece.length
    checksum = crc32(piece, checksum)
    yield piece
  }
  if (length === entry.uncompressedSize && checksum === entry.crc32) return
  throw new ImportError(
    'source_unreadable',
    `${what} is damaged: the file in the zip doesn't match its checksum; transfer the zip again`,
  )
}

/** Gives yauzl the directory, which it reads entry by entry in two small pieces, from one large piece at a time. */
class DirectoryReader extends yauzl.RandomAccessReader {
  /** An error of the file itself. */
  failure: unknown = null
  readonly #file: RandomAccessFile
  readonly #signal: AbortSignal
  readonly #buffer = Buffer.alloc(256 * 1024)
  #bufferStart = 0
  #bufferLength = 0

  constructor(file: RandomAccessFile, signal: AbortSignal) {
    super()
    this.#file = file
    this.#signal = signal
  }

  override read(
    target: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    if (position + length > this.#file.size) {
      callback(new Error('an entry of its directory points outside of it'))
      return
    }
    this.#copy(target.subarray(offset, offset + length), position).then(
      () => callback(null),
      (error: unknown) => {
        this.failure = error
        callback(new Error('the file could not be read', { cause: error }))
      },
    )
  }

  async #copy(target: Buffer, position: number): Promise<void> {
    this.#signal.throwIfAborted()
    if (position < this.#bufferStart || position + target.length > this.#bufferStart + this.#bufferLength) {
      this.#bufferStart = position
      this.#bufferLength = await this.#file.read(this.#buffer, position)
    }
    this.#buffer.copy(target, 0, position - this.#bufferStart)
  }
}
