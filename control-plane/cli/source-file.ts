import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { createReadStream, type BigIntStats } from 'node:fs'
import { open, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { errorMessage } from '../../shared/contract/errors.ts'
import { findContainer } from '../../shared/containers/container-kind.ts'
import { unzip } from '../../shared/containers/zip.ts'
import { findNonTable, findOfficeFile } from '../../shared/csv/no-table.ts'
import { binaryMegabyte } from '../../shared/values/byte-sizes.ts'
import { withoutCutCharacter } from '../../shared/values/utf8.ts'
import { CommandFailure, usage } from './failures.ts'
import { shellQuoted } from './terminal.ts'

/** A file on this machine that is to be imported. */
export interface SourceFile {
  name: string
  size: number
  /** The beginning as text, cut after a line if possible; null when it isn't plain UTF-8 and only the service reads it. */
  sample: (maxCharacters: number) => string | null
  /** All of it as text; null when it isn't plain UTF-8. */
  text: () => Promise<string | null>
  /** Its bytes as they are, from an offset on. */
  bytes: (from: number) => Readable
  /** Differs when the content differs, or when the file was written to since. */
  fingerprint: () => Promise<string>
  /** Whether the file was written to, or removed, since it was opened. */
  hasChanged: () => Promise<boolean>
}

const beginningBytes = binaryMegabyte
/** Standard input is kept in memory, so it is bounded. */
const maxPipeBytes = 64 * binaryMegabyte

/**
 * Opens a file; `-` is standard input, and `FILE.zip:NAME` a file in a zip. Throws wrong usage when it can't be read, and
 * a failure that lists the files of a zip with several.
 */
export async function openSourceFile(file: string, input: Readable): Promise<SourceFile> {
  if (file === '-') {
    const bytes = await readPipe(input)
    if (findContainer(bytes) === 'zip')
      await requireOneFile('standard input', unzippedPipe(bytes), 'FILE.zip')
    return pipedFile(bytes)
  }
  const [, zip, wanted] = /^(.+\.zip):(.+)$/is.exec(file) ?? []
  if (zip !== undefined && wanted !== undefined && !(await exists(file))) return zippedFile(zip, wanted)
  const { stats, beginning } = await readBeginning(file).catch((error: unknown) => {
    if (error instanceof CommandFailure) throw error
    throw usage(`can't read ${file}: ${errorMessage(error)}`)
  })
  requireTable(file, beginning)
  if (findContainer(beginning) === 'zip') await requireOneFile(file, unzipped(file), file)
  const size = Number(stats.size)
  return {
    name: path.basename(file),
    size,
    sample: (maxCharacters) => sampleOf(beginning, { isWhole: beginning.length === size, maxCharacters }),
    text: async () => asText(await readFile(file)),
    bytes: (from) => createReadStream(file, { start: from, end: Math.max(from, size - 1) }),
    fingerprint: async () => digest(createReadStream(file), writeMark(stats)),
    hasChanged: () => isWritten(file, stats),
  }
}

const exists = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  )

/** The bytes of the one file in a zip, or of the one that is wanted. Throws the zip's ImportError. */
async function* unzipped(zip: string, wanted?: string): AsyncGenerator<Buffer> {
  const handle = await open(zip).catch((error: unknown) => {
    throw usage(`can't read ${zip}: ${errorMessage(error)}`)
  })
  try {
    const { size } = await handle.stat()
    const read = async (target: Uint8Array, position: number) =>
      (await handle.read(target, 0, target.length, position)).bytesRead
    const { signal } = new AbortController()
    yield* unzip({ size, read }, { what: zip, ...(wanted === undefined ? {} : { wanted }), signal })
  } finally {
    await handle.close()
  }
}

function unzippedPipe(bytes: Buffer): AsyncGenerator<Buffer> {
  const read = async (target: Uint8Array, position: number) => bytes.copy(target, 0, position)
  const { signal } = new AbortController()
  return unzip({ size: bytes.length, read }, { what: 'standard input', signal })
}

/**
 * A zip with several files is refused before it is uploaded. What else may be wrong with a zip, the service says. `file`
 * is what a command names it by.
 */
async function requireOneFile(what: string, content: AsyncIterable<Buffer>, file: string): Promise<void> {
  try {
    for await (const _ of content) return
  } catch (error) {
    const [, names] = / is a zip with several files, .* It has (.+)$/s.exec(errorMessage(error)) ?? []
    if (names === undefined) return
    throw new CommandFailure(`${what} has several files, of which an import takes one: ${names}`, {
      hint: `name the one to import: rollcall import ${shellQuoted(`${file}:NAME`)}`,
    })
  }
}

/** A file in a zip. It is unpacked for each reading, so that nothing of it is left on the disk. */
async function zippedFile(zip: string, wanted: string): Promise<SourceFile> {
  const pieces: Buffer[] = []
  let size = 0
  const stats = await stat(zip, { bigint: true }).catch((error: unknown) => {
    throw usage(`can't read ${zip}: ${errorMessage(error)}`)
  })
  try {
    for await (const piece of unzipped(zip, wanted)) {
      if (size < beginningBytes) pieces.push(piece)
      size += piece.length
    }
  } catch (error) {
    if (error instanceof CommandFailure) throw error
    throw new CommandFailure(errorMessage(error))
  }
  const beginning = Buffer.concat(pieces).subarray(0, beginningBytes)
  requireTable(`${zip}:${wanted}`, beginning)
  return {
    name: wanted.split(/[/\\]/).at(-1) ?? wanted,
    size,
    sample: (maxCharacters) => sampleOf(beginning, { isWhole: beginning.length === size, maxCharacters }),
    text: async () => asText(Buffer.concat(await Array.fromAsync(unzipped(zip, wanted)))),
    bytes: (from) => Readable.from(withoutFirst(unzipped(zip, wanted), from)),
    fingerprint: () => digest(unzipped(zip, wanted), writeMark(stats)),
    hasChanged: () => isWritten(zip, stats),
  }
}

async function* withoutFirst(pieces: AsyncIterable<Buffer>, bytes: number): AsyncGenerator<Buffer> {
  let left = bytes
  for await (const piece of pieces) {
    if (left < piece.length) yield piece.subarray(left)
    left = Math.max(0, left - piece.length)
  }
}

/** Whether a file was written to, or removed, since these were its stats. */
const isWritten = (file: string, stats: BigIntStats): Promise<boolean> =>
  stat(file, { bigint: true }).then(
    (now) => writeMark(now) !== writeMark(stats),
    () => true,
  )

export const fileChanged = ({ name }: SourceFile): CommandFailure =>
  new CommandFailure(`${name} was written to while it was sent: import it when it is complete`)

export function requireFile(file: string, stats: { isFile: () => boolean }): void {
  if (!stats.isFile()) throw usage(`${file} is not a file`)
}

/** Differs after every write, also of a file whose time of change was set back. */
const writeMark = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  [dev, ino, size, mtimeNs, ctimeNs].join(':')

/** The service would refuse it too, but only when the file is uploaded. What is packed in a container, it alone sees. */
function requireTable(name: string, beginning: Buffer): void {
  const problem = isContainer(beginning) ? findOfficeFile(beginning) : findNonTable(beginning)
  if (problem !== null) throw new CommandFailure(`${name}: ${problem}`)
}

function pipedFile(bytes: Buffer): SourceFile {
  requireTable('standard input', bytes)
  return {
    name: 'stdin.csv',
    size: bytes.length,
    sample: (maxCharacters) =>
      sampleOf(bytes.subarray(0, beginningBytes), { isWhole: bytes.length <= beginningBytes, maxCharacters }),
    text: async () => asText(bytes),
    bytes: (from) => Readable.from([bytes.subarray(from)]),
    fingerprint: () => digest(Readable.from([bytes]), ''),
    hasChanged: async () => false,
  }
}

async function digest(bytes: AsyncIterable<Buffer>, mark: string): Promise<string> {
  const hash = createHash('sha256').update(`${mark}\n`)
  for await (const piece of bytes) hash.update(piece)
  return hash.digest('hex').slice(0, 16)
}

/** Null for broken UTF-8: in a JSON text it would become U+FFFD and be imported, although its record must fail. */
const asText = (bytes: Buffer): string | null =>
  isContainer(bytes) || !isUtf8(bytes) ? null : new TextDecoder().decode(bytes)

function sampleOf(
  beginning: Buffer,
  { isWhole, maxCharacters }: { isWhole: boolean; maxCharacters: number },
): string | null {
  const text = asText(isWhole ? beginning : withoutCutCharacter(beginning))
  return text === null ? null : cutAfterLine(text, maxCharacters)
}

const isContainer = (bytes: Buffer): boolean => findContainer(bytes) !== null

async function readBeginning(file: string): Promise<{ stats: BigIntStats; beginning: Buffer }> {
  const handle = await open(file)
  try {
    const stats = await handle.stat({ bigint: true })
    requireFile(file, stats)
    const beginning = Buffer.alloc(Math.min(Number(stats.size), beginningBytes))
    const { bytesRead } = await handle.read(beginning, 0, beginning.length, 0)
    return { stats, beginning: beginning.subarray(0, bytesRead) }
  } finally {
    await handle.close()
  }
}

async function readPipe(input: Readable): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of input as AsyncIterable<Buffer>) {
    pieces.push(piece)
    length += piece.length
    if (length > maxPipeBytes)
      throw usage(
        `standard input has more than ${maxPipeBytes / binaryMegabyte} MiB: write it to a file, and import that`,
      )
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
