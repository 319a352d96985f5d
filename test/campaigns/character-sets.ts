import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import type { CharacterSet } from '../../shared/contract/schemas/import.ts'
import { isTranscoded, recordDecoder } from '../../shared/csv/character-set.ts'
import { transcoder, type TranscodedSet } from '../../shared/csv/transcoder.ts'
import { decodeByStandard } from '../model/encoding-standard.ts'
import { iconvNames, knownCodes, longCodes, twoByteSets } from './known-codes.ts'
import { madeBytes } from './made-bytes.ts'
import { Random } from './random.ts'

/**
 * The engine's decoders against three others: test/model, written by the text of the Encoding Standard;
 * text-encoding, by the standard's editor; and glibc's iconv.
 */
export type DecodedSet = Exclude<CharacterSet, 'utf-16'>

const require = createRequire(import.meta.url)
const { TextDecoder: EditorsDecoder } = require('text-encoding') as { TextDecoder: typeof TextDecoder }

interface Line {
  /** U+FFFD stands for undecodable bytes. */
  text: string
  isValid: boolean
}

interface ComparedTexts {
  differences: string[]
  validLines: number
  invalidLines: number
  validTexts: ValidText[]
}

interface ValidText {
  where: string
  bytes: Buffer
  text: string
}

/** Random texts by the engine, the model and text-encoding. */
export function compareTexts(set: DecodedSet, count: number, seed: number): ComparedTexts {
  const random = new Random(seed)
  const result: ComparedTexts = { differences: [], validLines: 0, invalidLines: 0, validTexts: [] }
  for (let number = 0; number < count; number += 1) {
    const bytes = madeBytes(set, random)
    const pieces = cutAnywhere(bytes, random)
    const expected = expectedLines(bytes, set)
    const found = linesOfEngine(pieces, set)
    for (const { isValid } of expected) result[isValid ? 'validLines' : 'invalidLines'] += 1
    const text = expected.map((line) => line.text).join('\n')
    const isValid = expected.every((line) => line.isValid)
    const where = `${set}, seed ${seed}, text ${number}, pieces ${pieces.map((piece) => piece.toString('hex')).join(' ')}`
    if (JSON.stringify(found) !== JSON.stringify(expected))
      result.differences.push(`${where}: expected ${JSON.stringify(expected)}, came ${JSON.stringify(found)}`)
    const byEditor = textByEditor(bytes, set, { text, isValid })
    if (byEditor !== text)
      result.differences.push(
        `${where}: text-encoding has ${JSON.stringify(byEditor)}, the model ${JSON.stringify(text)}`,
      )
    if (isValid) result.validTexts.push({ where, bytes, text })
  }
  return result
}

function cutAnywhere(bytes: Buffer, random: Random): Buffer[] {
  const cuts = Array.from({ length: random.between(0, 4) }, () => random.between(0, bytes.length))
  const ends = [...cuts.toSorted((a, b) => a - b), bytes.length]
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}

function linesOfEngine(pieces: Buffer[], set: DecodedSet): Line[] {
  const staged = isTranscoded(set) ? transcoded(pieces, set as TranscodedSet) : Buffer.concat(pieces)
  const decoder = recordDecoder(set)
  const lines: Line[] = []
  for (let start = 0; start <= staged.length;) {
    const lineEnd = staged.indexOf('\n', start)
    const end = lineEnd === -1 ? staged.length : lineEnd
    const text = decoder.decode(staged, start, end)
    lines.push({ text, isValid: decoder.isValid(staged, start, end) })
    start = end + 1
  }
  return lines
}

/** The caller reuses the memory of a piece. */
function transcoded(pieces: Buffer[], set: TranscodedSet): Buffer {
  const conversion = transcoder(set)
  const memory = Buffer.alloc(Math.max(...pieces.map((piece) => piece.length)))
  const written = pieces.map((piece) => {
    piece.copy(memory)
    const result = Buffer.from(conversion.write(memory.subarray(0, piece.length)))
    memory.fill('!')
    return result
  })
  return Buffer.concat([...written, conversion.end()])
}

function expectedLines(bytes: Buffer, set: DecodedSet): Line[] {
  if (set === 'utf-8') return linesOfUtf8(bytes)
  const lines: Line[] = [{ text: '', isValid: true }]
  for (const character of decodeByStandard(bytes, set))
    if (character === '\n') lines.push({ text: '', isValid: true })
    else {
      const line = lines.at(-1)!
      line.text += character ?? '\ufffd'
      line.isValid &&= character !== null
    }
  return lines
}

const linesOfUtf8 = (bytes: Buffer): Line[] =>
  bytes
    .toString('latin1')
    .split('\n')
    .map((line) => {
      const own = Buffer.from(line, 'latin1')
      return { text: new EditorsDecoder('utf-8', { ignoreBOM: true }).decode(own), isValid: isValidUtf8(own) }
    })

function isValidUtf8(bytes: Buffer): boolean {
  try {
    new EditorsDecoder('utf-8', { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}

/**
 * Sets in which text-encoding 0.7.0, of 2018, is what the contract says for invalid text as well. It swallows ASCII
 * after a lead byte of EUC-KR, and splits codes of GB18030 that have no character, as the standard did before; and for
 * the codes that Windows leaves undefined the contract differs from the standard.
 */
const sameWhereInvalid: readonly DecodedSet[] = [
  'utf-8',
  'utf-16le',
  'utf-16be',
  'shift_jis',
  'big5',
  'iso-8859-2',
  'iso-8859-15',
]

/** Characters of GB18030-2022, which is younger than text-encoding 0.7.0. */
const youngCharacters = /[\u9fb4-\u9fbb\ufe10-\ufe19]/

/** The text by text-encoding. The given one where it is known to differ, and for the real ISO-8859-1. */
function textByEditor(bytes: Buffer, set: DecodedSet, { text, isValid }: Line): string {
  const isComparable = isValid
    ? set !== 'iso-8859-1' && !(set === 'gbk' && youngCharacters.test(text))
    : sameWhereInvalid.includes(set)
  return isComparable ? new EditorsDecoder(set, { ignoreBOM: true }).decode(bytes) : text
}

/** iconv stops at the first error, so it gets valid texts alone, and no characters of codes that are known to differ. */
export function differencesFromIconv(set: DecodedSet, texts: ValidText[]): string[] {
  const known = (knownCodes[set] ?? []).map((code) => textOf(Buffer.from(code, 'hex'), set))
  const comparable = texts.filter(({ text }) => !known.some((character) => text.includes(character)))
  const converted = iconv(iconvNames[set], Buffer.concat(comparable.map(({ bytes }) => bytes)))
  let at = 0
  for (const { where, text } of comparable) {
    const expected = Buffer.from(text)
    const found = converted.subarray(at, at + expected.length)
    if (!found.equals(expected))
      return [`${where}: expected ${JSON.stringify(text)}, iconv has ${JSON.stringify(found.toString())}`]
    at += expected.length
  }
  return at === converted.length ? [] : [`${set}: iconv has ${converted.length} bytes, expected ${at}`]
}

const textOf = (bytes: Buffer, set: DecodedSet): string =>
  expectedLines(bytes, set)
    .map(({ text }) => text)
    .join('\n')

const iconv = (name: string, input: Buffer, ...options: string[]): Buffer =>
  spawnSync('iconv', [...options, '-f', name, '-t', 'UTF-8'], { input, maxBuffer: 2 ** 30 }).stdout

/** Why iconv can't be asked; false where it can. Other systems' iconv has other tables. */
export function missingIconv(): string | false {
  const { stdout } = spawnSync('iconv', ['--version'], { encoding: 'utf8' })
  return !/GLIBC|GNU libc/.test(stdout ?? '') && "glibc's iconv not installed"
}

/** Each byte from 0x80 on, and each pair of bytes, where the engine isn't as the model. */
export const differencesInCodes = (set: DecodedSet): string[] =>
  codesOf(set).flatMap((code) => {
    const expected = JSON.stringify(expectedLines(code, set))
    const found = JSON.stringify(linesOfEngine([code], set))
    return found === expected ? [] : [`${set} ${code.toString('hex')}: expected ${expected}, came ${found}`]
  })

/** The codes, in hexadecimal, that iconv reads otherwise than the model. */
export function codesOtherInIconv(set: DecodedSet): string[] {
  const codes = codesOf(set)
  const lines = linesByIconv(iconvNames[set], codes)
  const trailAlone = new Map(codes.flatMap((code, i) => (code.length === 1 ? [[code[0], lines[i]]] : [])))
  const isOther = (code: Buffer, i: number): boolean => {
    const { text, isValid } = expectedLines(code, set)[0]!
    if (isValid) return lines[i] !== text
    // iconv resumes behind the first byte, so the second one may be a character.
    return /[^\0-\x7f]/.test(lines[i]!) && lines[i] !== trailAlone.get(code[1])
  }
  return codes.filter(isOther).map((code) => code.toString('hex'))
}

function codesOf(set: DecodedSet): Buffer[] {
  const bytes = Array.from({ length: 128 }, (_, i) => 0x80 + i)
  const single = bytes.map((byte) => Buffer.of(byte))
  if (!twoByteSets.includes(set)) return single
  const leads = bytes.filter((byte) => byte > 0x80 && textOf(Buffer.of(byte), set) === '\ufffd')
  const pairs = leads.flatMap((lead) =>
    Array.from({ length: 256 - 0x21 }, (_, i) => Buffer.of(lead, 0x21 + i)),
  )
  return [...single, ...pairs, ...(set === 'gbk' ? longCodes() : [])]
}

/** The blanks keep the line end from being taken for a part of the code. What iconv can't read is left out. */
function linesByIconv(name: string, codes: Buffer[]): string[] {
  const input = Buffer.concat(codes.flatMap((code) => [code, Buffer.from('    \n')]))
  return iconv(name, input, '-c')
    .toString()
    .split('\n')
    .map((line) => line.replace(/ +$/, ''))
}
