import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGunzip, createGzip } from 'node:zlib'
import { errorMessage } from '../../shared/contract/errors.ts'
import { binaryMegabyte } from '../../shared/values/byte-sizes.ts'
import { beginningBytes, detectCharacterSet, guessUtf16 } from '../../shared/csv/file-beginning.ts'
import type { Sample } from '../../shared/csv/sampled-records.ts'
import { usage } from './failures.ts'

/** The character sets that are converted to UTF-8 here. */
export type LocalCharacterSet = 'utf-8' | 'iso-8859-1' | 'windows-1252' | 'utf-16le' | 'utf-16be'

/** A file on this machine that is to be imported. */
export interface SourceFile {
  name: string
  size: number
  /** Whether it is compressed (.gz). It is uploaded compressed, and the service decompresses it. */
  isPacked: boolean
  characterSet: LocalCharacterSet
  /** The beginning of its first megabyte as text, cut after a line if possible. */
  beginning: (maxCharacters: number) => string
  /** All of it as text; null when it has bytes that are invalid in its character set. */
  text(): Promise<string | null>
  /** All of it as UTF-8, compressed if the file is. */
  bytes(): Readable
}

/** Standard input is kept in memory, so it is bounded. */
const maxPipeBytes = 64 * binaryMegabyte

/** Opens a file; `-` is standard input. Throws wrong usage when it can't be read. */
export async function openSourceFile(
  file: string,
  options: { characterSet?: LocalCharacterSet; input: Readable },
): Promise<SourceFile> {
  if (file === '-') return pipedFile(await readPipe(options.input), options.characterSet)
  const found = await stat(file).catch((error: unknown) => {
    throw usage(`can't read ${file}: ${errorMessage(error)}`)
  })
  if (!found.isFile()) throw usage(`${file} is not a file`)
  const isPacked = path.extname(file).toLowerCase() === '.gz'
  const head = isPacked ? await readCompressedBeginning(file) : await readBeginning(file, found.size)
  const characterSet =
    options.characterSet ?? detect({ bytes: head, isWhole: head.length === found.size && !isPacked })
  return {
    name: path.basename(file),
    size: found.size,
    isPacked,
    characterSet,
    beginning: (maxCharacters) => cutAfterLine(decode(head, characterSet), maxCharacters),
    text: async () => decodeStrictly(await buffer(createReadStream(file)), characterSet),
    bytes: () => {
      const stored = createReadStream(file)
      if (characterSet === 'utf-8') return stored
      return isPacked ? recompressed(stored, characterSet) : Readable.from(recoded(stored, characterSet))
    },
  }
}

function pipedFile(bytes: Buffer, requested: LocalCharacterSet | undefined): SourceFile {
  const characterSet = requested ?? detect({ bytes, isWhole: true })
  const text = decode(bytes, characterSet)
  return {
    name: 'stdin.csv',
    size: bytes.length,
    isPacked: false,
    characterSet,
    beginning: (maxCharacters) => cutAfterLine(text, maxCharacters),
    text: async () => decodeStrictly(bytes, characterSet),
    bytes: () => Readable.from([characterSet === 'utf-8' ? bytes : Buffer.from(text)]),
  }
}

function detect(sample: Sample): LocalCharacterSet {
  const detected = detectCharacterSet(sample)
  return detected.startsWith('utf-16') ? detected : (guessUtf16(sample.bytes) ?? detected)
}

const decode = (bytes: Buffer, characterSet: LocalCharacterSet): string =>
  characterSet === 'iso-8859-1' ? bytes.toString('latin1') : new TextDecoder(characterSet).decode(bytes)

/** Null for broken UTF-8: in a JSON text it would become U+FFFD and be imported, although its record must fail. */
const decodeStrictly = (bytes: Buffer, characterSet: LocalCharacterSet): string | null =>
  characterSet === 'utf-8' && !isUtf8(bytes) ? null : decode(bytes, characterSet)

async function readBeginning(file: string, size: number): Promise<Buffer> {
  const handle = await open(file)
  try {
    const bytes = Buffer.alloc(Math.min(size, beginningBytes))
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0)
    return bytes.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

async function readCompressedBeginning(file: string): Promise<Buffer> {
  const compressed = createReadStream(file)
  const decompressed = compressed.on('error', () => undefined).pipe(createGunzip())
  try {
    return (await readUpTo(decompressed, beginningBytes)).subarray(0, beginningBytes)
  } catch (error) {
    throw usage(`${file} is not a valid gzip file: ${errorMessage(error)}`)
  } finally {
    compressed.destroy()
    decompressed.destroy()
  }
}

async function readPipe(input: Readable): Promise<Buffer> {
  const bytes = await readUpTo(input, maxPipeBytes + 1)
  if (bytes.length > maxPipeBytes)
    throw usage(
      `standard input has more than ${maxPipeBytes / binaryMegabyte} MB: write it to a file, and import that`,
    )
  return bytes
}

/** Reads until there are `enough` bytes, or the stream ends. */
async function readUpTo(stream: AsyncIterable<Buffer>, enough: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of stream) {
    pieces.push(piece)
    length += piece.length
    if (length >= enough) break
  }
  return Buffer.concat(pieces)
}

function cutAfterLine(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text
  const end = text.lastIndexOf('\n', maxCharacters - 1) + 1
  if (end > 0) return text.slice(0, end)
  // The cut must not leave half of a surrogate pair.
  return text.slice(0, maxCharacters).replace(/[\ud800-\udbff]$/, '')
}

function recompressed(stream: Readable, characterSet: LocalCharacterSet): Readable {
  const compressed = createGzip({ level: 1 })
  // An error destroys the last stream too, whose reader gets it.
  pipeline(
    stream,
    createGunzip(),
    (text: AsyncIterable<Buffer>) => recoded(text, characterSet),
    compressed,
    () => undefined,
  )
  return compressed
}

async function* recoded(
  stream: AsyncIterable<Buffer>,
  characterSet: LocalCharacterSet,
): AsyncGenerator<Buffer> {
  const decoder = new TextDecoder(characterSet === 'iso-8859-1' ? 'windows-1252' : characterSet)
  for await (const piece of stream) yield Buffer.from(decoder.decode(piece, { stream: true }))
  yield Buffer.from(decoder.decode())
}
