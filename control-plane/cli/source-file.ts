import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { messageOf } from '../../shared/contract/errors.ts'
import {
  asUtf8,
  detectCharacterSet,
  type CharacterSet,
} from '../resources/import-inspection/character-set.ts'
import { usage } from './failures.ts'

/** A file on this machine that is to be imported. */
export interface SourceFile {
  name: string
  size: number
  /** Packed: it is uploaded so, and unpacked by the service. */
  isPacked: boolean
  characterSet: CharacterSet
  /** At most its first megabyte as text, cut behind a line where that can be. */
  beginning: (maxCharacters: number) => string
  /** All of it as text; null where it has bytes that are none. */
  text(): Promise<string | null>
  /** All of it as UTF-8, packed where it is. */
  bytes(): Readable
}

const beginningBytes = 1024 * 1024
/** Of what comes through a pipe: it is held in memory. */
const maxPipeBytes = 64 * 1024 * 1024

/** `-` is standard input. Fails where there is no such file. */
export async function openSourceFile(
  file: string,
  options: { characterSet?: CharacterSet; input: Readable },
): Promise<SourceFile> {
  if (file === '-') return pipedFile(await readPipe(options.input), options.characterSet)
  const found = await stat(file).catch((error: unknown) => {
    throw usage(`can't read ${file}: ${messageOf(error)}`)
  })
  if (!found.isFile()) throw usage(`${file} is not a file`)
  const isPacked = path.extname(file).toLowerCase() === '.gz'
  const head = isPacked ? await unpackedBeginning(file) : await readBeginning(file, found.size)
  const characterSet =
    options.characterSet ?? detectCharacterSet(head, { isWhole: head.length === found.size && !isPacked })
  return {
    name: path.basename(file),
    size: found.size,
    isPacked,
    characterSet,
    beginning: (maxCharacters) => cutBehindLine(textOf(head, characterSet), maxCharacters),
    text: async () => wholeText(await readAll(createReadStream(file)), characterSet),
    bytes: () => {
      const stored = createReadStream(file)
      if (characterSet === 'utf-8') return stored
      return isPacked ? repacked(stored, characterSet) : Readable.from(recoded(stored, characterSet))
    },
  }
}

function pipedFile(bytes: Buffer, given: CharacterSet | undefined): SourceFile {
  const characterSet = given ?? detectCharacterSet(bytes, { isWhole: true })
  const text = textOf(bytes, characterSet)
  return {
    name: 'stdin.csv',
    size: bytes.length,
    isPacked: false,
    characterSet,
    beginning: (maxCharacters) => cutBehindLine(text, maxCharacters),
    text: async () => wholeText(bytes, characterSet),
    bytes: () => Readable.from([characterSet === 'utf-8' ? bytes : Buffer.from(text)]),
  }
}

const textOf = (bytes: Buffer, characterSet: CharacterSet): string => asUtf8(bytes, characterSet).toString()

/** Broken UTF-8 would become U+FFFD in a JSON text, and be imported where the record ought to fail. */
const wholeText = (bytes: Buffer, characterSet: CharacterSet): string | null =>
  characterSet === 'utf-8' && !isUtf8(bytes) ? null : textOf(bytes, characterSet)

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

async function unpackedBeginning(file: string): Promise<Buffer> {
  const packed = createReadStream(file)
  const unpacked = packed.on('error', () => undefined).pipe(createGunzip())
  const pieces: Buffer[] = []
  let length = 0
  try {
    for await (const piece of unpacked) {
      pieces.push(piece as Buffer)
      length += (piece as Buffer).length
      if (length >= beginningBytes) break
    }
  } catch (error) {
    throw usage(`${file} is no intact gzip file: ${messageOf(error)}`)
  } finally {
    packed.destroy()
    unpacked.destroy()
  }
  return Buffer.concat(pieces).subarray(0, beginningBytes)
}

async function readAll(stream: Readable): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of stream) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

async function readPipe(input: Readable): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of input) {
    pieces.push(Buffer.from(piece as Uint8Array))
    length += (piece as Uint8Array).length
    if (length > maxPipeBytes)
      throw usage(`standard input has more than ${maxPipeBytes / 1024 / 1024} MB: put it into a file first`)
  }
  return Buffer.concat(pieces)
}

function cutBehindLine(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text
  const end = text.lastIndexOf('\n', maxCharacters - 1) + 1
  if (end > 0) return text.slice(0, end)
  // Half a character is none.
  return text.slice(0, maxCharacters).replace(/[\ud800-\udbff]$/, '')
}

function repacked(stream: Readable, characterSet: CharacterSet): Readable {
  const packed = createGzip({ level: 1 })
  // What goes wrong destroys the last stream too, and its reader hears it there.
  pipeline(
    stream,
    createGunzip(),
    (text: AsyncIterable<Buffer>) => recoded(text, characterSet),
    packed,
    () => undefined,
  )
  return packed
}

async function* recoded(stream: AsyncIterable<Buffer>, characterSet: CharacterSet): AsyncGenerator<Buffer> {
  const decoder = new TextDecoder(characterSet === 'iso-8859-1' ? 'windows-1252' : characterSet)
  for await (const piece of stream) yield Buffer.from(decoder.decode(piece, { stream: true }))
  yield Buffer.from(decoder.decode())
}
