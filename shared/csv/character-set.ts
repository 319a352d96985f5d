import { isUtf8 } from 'node:buffer'
import { createSinglebyteDecoder } from '@exodus/bytes/single-byte.js'
import type { CharacterSet } from '../contract/schemas/import.ts'

/**
 * Character sets mean what the decoders of the WHATWG Encoding Standard mean, with two exceptions: ISO-8859-1 is the
 * real one, and the bytes that Windows sets leave undefined are undecodable. Sets of one byte a character are decoded
 * in place. The others are staged as UTF-8 (transcoder.ts).
 */
const names: Record<CharacterSet, string> = {
  'utf-8': 'UTF-8',
  'iso-8859-1': 'ISO-8859-1',
  'windows-1252': 'windows-1252',
  'windows-1250': 'windows-1250',
  'windows-1251': 'windows-1251',
  'iso-8859-2': 'ISO-8859-2',
  'iso-8859-15': 'ISO-8859-15',
  'utf-16le': 'UTF-16LE',
  'utf-16be': 'UTF-16BE',
  'utf-16': 'UTF-16',
  shift_jis: 'Shift_JIS',
  gbk: 'GBK',
  big5: 'Big5',
  'euc-kr': 'EUC-KR',
}

/** The name as its standard spells it, for messages. */
export const characterSetName = (set: CharacterSet): string => names[set]

const singleByteSets = [
  'iso-8859-1',
  'windows-1252',
  'windows-1250',
  'windows-1251',
  'iso-8859-2',
  'iso-8859-15',
] as const
type SingleByteSet = (typeof singleByteSets)[number]

const isSingleByte = (set: CharacterSet): set is SingleByteSet =>
  singleByteSets.some((candidate) => candidate === set)

/** Whether files in the set are converted to UTF-8 while they are staged. */
export const isTranscoded = (set: CharacterSet): boolean => set !== 'utf-8' && !isSingleByte(set)

export const undecodable = '\ufffd'

const undefinedBytes: Partial<Record<SingleByteSet, readonly number[]>> = {
  'windows-1252': [0x81, 0x8d, 0x8f, 0x90, 0x9d],
  'windows-1250': [0x81, 0x83, 0x88, 0x90, 0x98],
  'windows-1251': [0x98],
}

const isUndefined = (set: SingleByteSet, byte: number): boolean =>
  undefinedBytes[set]?.includes(byte) === true

/** The character of each byte. U+FFFD stands for undecodable ones, since no single-byte set has that character. */
function characterTable(set: SingleByteSet): string[] {
  const allBytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)
  const characters = createSinglebyteDecoder(set)(allBytes).split('')
  return characters.map((character, byte) => (isUndefined(set, byte) ? undecodable : character))
}

/** Decodes records of staged bytes. */
export interface RecordDecoder {
  /** Undecodable bytes become U+FFFD. */
  decode(bytes: Buffer, start: number, end: number): string
  /** False where bytes are undecodable. Text without U+FFFD needs no check; that character may also be one of a file. */
  isValid(bytes: Buffer, start: number, end: number): boolean
}

const utf8Decoder: RecordDecoder = {
  decode: (bytes, start, end) => bytes.toString('utf8', start, end),
  isValid: (bytes, start, end) => isUtf8(bytes.subarray(start, end)),
}

const latin1Decoder: RecordDecoder = {
  decode: (bytes, start, end) => bytes.toString('latin1', start, end),
  isValid: () => true,
}

export function recordDecoder(set: CharacterSet): RecordDecoder {
  if (!isSingleByte(set)) return utf8Decoder
  return set === 'iso-8859-1' ? latin1Decoder : tableDecoder(set)
}

function tableDecoder(set: SingleByteSet): RecordDecoder {
  const table = Buffer.from(characterTable(set).join(''), 'utf16le')
  let units = Buffer.allocUnsafeSlow(8_192)
  return {
    decode(bytes, start, end) {
      let at = start
      while (at < end && bytes[at]! < 0x80) at += 1
      if (at === end) return bytes.toString('latin1', start, end)
      const length = 2 * (end - start)
      if (length > units.length) units = Buffer.allocUnsafeSlow(length)
      for (let i = start, unit = 0; i < end; i += 1, unit += 2) {
        const entry = 2 * bytes[i]!
        units[unit] = table[entry]!
        units[unit + 1] = table[entry + 1]!
      }
      return units.toString('utf16le', 0, length)
    },
    isValid(bytes, start, end) {
      for (let at = start; at < end; at += 1) if (isUndefined(set, bytes[at]!)) return false
      return true
    },
  }
}

/** Encodes text for readers. A character that the set lacks becomes `?`. Transcoded sets are written as UTF-8. */
export function textEncoder(set: CharacterSet): (text: string) => Buffer {
  if (!isSingleByte(set)) return (text) => Buffer.from(text)
  const bytes = new Map(
    characterTable(set).flatMap((character, byte) =>
      character === undecodable ? [] : [[character, String.fromCharCode(byte)] as const],
    ),
  )
  return (text) =>
    Buffer.from(
      text.replaceAll(/[^\0-\x7f]/gu, (character) => bytes.get(character) ?? '?'),
      'latin1',
    )
}
