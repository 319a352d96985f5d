import { createRequire } from 'node:module'
import type { CharacterSet } from '../../shared/contract/schemas/import.ts'

/**
 * Character sets by the text of the WHATWG Encoding Standard, one character at a time. The tables are those of
 * text-encoding, a package of the standard's editor; it shares no code with the engine's library.
 */
type Index = readonly (number | null)[]
type IndexName = WindowsOrIso | 'jis0208' | 'gb18030' | 'big5' | 'euc-kr'
type WindowsOrIso = 'windows-1250' | 'windows-1251' | 'windows-1252' | 'iso-8859-2' | 'iso-8859-15'
type Ranges = readonly (readonly [pointer: number, codePoint: number])[]

const require = createRequire(import.meta.url)
const { 'encoding-indexes': tables } = require('text-encoding/lib/encoding-indexes.js') as {
  'encoding-indexes': Record<IndexName, Index> & { 'gb18030-ranges': Ranges }
}

/** GB18030-2022 gave these codes characters that Unicode had got since 2005. The tables of the package are older. */
const changedIn2022: ReadonlyMap<number, number> = new Map([
  ...[0xfe10, 0xfe12, 0xfe11, 0xfe13, 0xfe14, 0xfe15, 0xfe16].map((to, i) => [7182 + i, to] as const),
  ...([
    [7201, 0xfe17],
    [7202, 0xfe18],
    [7208, 0xfe19],
    [23775, 0x9fb4],
    [23783, 0x9fb5],
  ] as const),
  ...([
    [23788, 0x9fb6],
    [23789, 0x9fb7],
    [23795, 0x9fb8],
    [23812, 0x9fb9],
  ] as const),
  ...([
    [23829, 0x9fba],
    [23845, 0x9fbb],
  ] as const),
])

/** Codes that Windows leaves undefined; the contract calls them undecodable, the standard makes them controls. */
const undefinedBytes: Readonly<Record<string, readonly number[]>> = {
  'windows-1252': [0x81, 0x8d, 0x8f, 0x90, 0x9d],
  'windows-1250': [0x81, 0x83, 0x88, 0x90, 0x98],
  'windows-1251': [0x98],
}

/** A character, null for undecodable bytes, and how many bytes it takes. */
interface Read {
  character: string | null
  length: number
}

type Reader = (bytes: Uint8Array, at: number) => Read

/** All sets but those that need no table, or say no order of their bytes. */
export type ModelledSet = Exclude<CharacterSet, 'utf-8' | 'utf-16'>

/** The characters of the bytes; null for each error of the standard's decoder. */
export function decodeByStandard(bytes: Uint8Array, set: ModelledSet): (string | null)[] {
  const read = readers[set]
  const characters: (string | null)[] = []
  for (let at = 0; at < bytes.length;) {
    const { character, length } = read(bytes, at)
    characters.push(character)
    at += length
  }
  return characters
}

const fromIndex = (index: Index, pointer: number): string | null => {
  const codePoint = index[pointer] ?? null
  return codePoint === null ? null : String.fromCodePoint(codePoint)
}

const singleByte =
  (set: WindowsOrIso): Reader =>
  (bytes, at) => {
    const byte = bytes[at]!
    if (byte < 0x80) return { character: String.fromCharCode(byte), length: 1 }
    const isUndefined = undefinedBytes[set]?.includes(byte) === true
    return { character: isUndefined ? null : fromIndex(tables[set], byte - 0x80), length: 1 }
  }

const utf16 =
  (order: 'little' | 'big'): Reader =>
  (bytes, at) => {
    const unitAt = (from: number): number | null => {
      const [first, second] = [bytes[from], bytes[from + 1]]
      if (first === undefined || second === undefined) return null
      return order === 'little' ? first + 256 * second : 256 * first + second
    }
    const unit = unitAt(at)
    if (unit === null) return { character: null, length: 1 }
    if (unit < 0xd800 || unit > 0xdfff) return { character: String.fromCharCode(unit), length: 2 }
    const next = unitAt(at + 2)
    if (unit > 0xdbff || (next !== null && (next < 0xdc00 || next > 0xdfff)))
      return { character: null, length: 2 }
    // The end of the bytes within a pair is one error.
    if (next === null) return { character: null, length: bytes.length - at }
    return { character: String.fromCharCode(unit, next), length: 4 }
  }

type Pair = (lead: number, trail: number) => string | null

/** "If byte is an ASCII byte, restore byte": it isn't swallowed by a lead byte that it doesn't fit. */
function readPair(bytes: Uint8Array, at: number, pair: Pair): Read {
  const trail = bytes[at + 1]
  if (trail === undefined) return { character: null, length: 1 }
  const character = pair(bytes[at]!, trail)
  return { character, length: character === null && trail < 0x80 ? 1 : 2 }
}

const isBetween = (byte: number | undefined, first: number, last: number): byte is number =>
  byte !== undefined && byte >= first && byte <= last

const shiftJis: Reader = (bytes, at) => {
  const byte = bytes[at]!
  if (byte <= 0x80) return { character: String.fromCharCode(byte), length: 1 }
  if (isBetween(byte, 0xa1, 0xdf)) return { character: String.fromCharCode(0xff61 - 0xa1 + byte), length: 1 }
  if (byte === 0xa0 || byte > 0xfc) return { character: null, length: 1 }
  return readPair(bytes, at, (lead, trail) => {
    if (!isBetween(trail, 0x40, 0x7e) && !isBetween(trail, 0x80, 0xfc)) return null
    const pointer = (lead - (lead < 0xa0 ? 0x81 : 0xc1)) * 188 + trail - (trail < 0x7f ? 0x40 : 0x41)
    if (isBetween(pointer, 8836, 10715)) return String.fromCharCode(0xe000 - 8836 + pointer)
    return fromIndex(tables.jis0208, pointer)
  })
}

/** Sets whose lead bytes are 0x81 to 0xFE. */
const leadFrom81 =
  (at80: string | null, readLonger: Reader): Reader =>
  (bytes, at) => {
    const byte = bytes[at]!
    if (byte < 0x80) return { character: String.fromCharCode(byte), length: 1 }
    if (byte === 0x80) return { character: at80, length: 1 }
    return byte === 0xff ? { character: null, length: 1 } : readLonger(bytes, at)
  }

const eucKrPair: Pair = (lead, trail) =>
  isBetween(trail, 0x41, 0xfe) ? fromIndex(tables['euc-kr'], (lead - 0x81) * 190 + trail - 0x41) : null

/** Letters of HKSCS that are two characters in Unicode. */
const big5Letters: ReadonlyMap<number, string> = new Map([
  [1133, '\u00ca\u0304'],
  [1135, '\u00ca\u030c'],
  [1164, '\u00ea\u0304'],
  [1166, '\u00ea\u030c'],
])

const big5Pair: Pair = (lead, trail) => {
  if (!isBetween(trail, 0x40, 0x7e) && !isBetween(trail, 0xa1, 0xfe)) return null
  const pointer = (lead - 0x81) * 157 + trail - (trail < 0x7f ? 0x40 : 0x62)
  return big5Letters.get(pointer) ?? fromIndex(tables.big5, pointer)
}

const gb18030Pair: Pair = (lead, trail) => {
  if (!isBetween(trail, 0x40, 0x7e) && !isBetween(trail, 0x80, 0xfe)) return null
  const pointer = (lead - 0x81) * 190 + trail - (trail < 0x7f ? 0x40 : 0x41)
  const changed = changedIn2022.get(pointer)
  return changed === undefined ? fromIndex(tables.gb18030, pointer) : String.fromCharCode(changed)
}

const gb18030: Reader = (bytes, at) => {
  const [first, second, third, fourth] = bytes.subarray(at, at + 4)
  if (!isBetween(second, 0x30, 0x39)) return readPair(bytes, at, gb18030Pair)
  // The end of the bytes within four of them is one error.
  if (third === undefined) return { character: null, length: 2 }
  if (!isBetween(third, 0x81, 0xfe)) return { character: null, length: 1 }
  if (fourth === undefined) return { character: null, length: 3 }
  if (!isBetween(fourth, 0x30, 0x39)) return { character: null, length: 1 }
  const pointer = (first! - 0x81) * 12_600 + (second - 0x30) * 1260 + (third - 0x81) * 10 + fourth - 0x30
  return { character: gb18030Range(pointer), length: 4 }
}

function gb18030Range(pointer: number): string | null {
  if ((pointer > 39_419 && pointer < 189_000) || pointer > 1_237_575) return null
  if (pointer === 7457) return '\ue7c7'
  const [offset, codePoint] = tables['gb18030-ranges'].findLast(([from]) => from <= pointer)!
  return String.fromCodePoint(codePoint + pointer - offset)
}

const readers: Readonly<Record<ModelledSet, Reader>> = {
  'iso-8859-1': (bytes, at) => ({ character: String.fromCharCode(bytes[at]!), length: 1 }),
  'windows-1252': singleByte('windows-1252'),
  'windows-1250': singleByte('windows-1250'),
  'windows-1251': singleByte('windows-1251'),
  'iso-8859-2': singleByte('iso-8859-2'),
  'iso-8859-15': singleByte('iso-8859-15'),
  'utf-16le': utf16('little'),
  'utf-16be': utf16('big'),
  shift_jis: shiftJis,
  gbk: leadFrom81('\u20ac', gb18030),
  big5: leadFrom81(null, (bytes, at) => readPair(bytes, at, big5Pair)),
  'euc-kr': leadFrom81(null, (bytes, at) => readPair(bytes, at, eucKrPair)),
}

type EncodedSet = Exclude<ModelledSet, 'iso-8859-1' | 'utf-16le' | 'utf-16be'>

const codes = new Map<EncodedSet, ReadonlyMap<string, Buffer>>()

/** The characters of a set, but for those of four bytes, each with one of its codes. */
export function codesOf(set: EncodedSet): ReadonlyMap<string, Buffer> {
  const known = codes.get(set)
  if (known !== undefined) return known
  const bytes = Array.from({ length: 256 }, (_, byte) => byte)
  const all = [
    ...bytes.map((byte) => Buffer.of(byte)),
    ...bytes.slice(0x81).flatMap((lead) => bytes.slice(0x40).map((trail) => Buffer.of(lead, trail))),
  ]
  const found = new Map<string, Buffer>()
  for (const code of all) {
    const [character = null, ...others] = decodeByStandard(code, set)
    if (character !== null && others.length === 0 && !found.has(character)) found.set(character, code)
  }
  codes.set(set, found)
  return found
}

/** A character that the set lacks becomes `?`. */
export const encodeByStandard = (text: string, set: EncodedSet): Buffer =>
  Buffer.concat(Array.from(text, (character) => codesOf(set).get(character) ?? Buffer.from('?')))
