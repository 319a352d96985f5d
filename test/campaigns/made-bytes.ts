import type { DecodedSet } from './character-sets.ts'
import type { Random } from './random.ts'

/** Bytes as careless writers leave them: text of the set, cut and mixed with bytes that are none of it. */
export function madeBytes(set: DecodedSet, random: Random): Buffer {
  const pieces = Array.from({ length: random.between(0, 10) }, () => random.oneOf(piecesOf(set))(random))
  const bytes = Buffer.concat(pieces)
  return random.chance(0.2) ? bytes.subarray(0, Math.max(0, bytes.length - random.between(1, 3))) : bytes
}

type Piece = (random: Random) => Buffer

const byte = (random: Random) => random.between(0, 255)
const highByte = (random: Random) => random.between(0x80, 0xff)

const asciiRun = (random: Random): string =>
  random.oneOf([
    ...['a@x.co,', 'Z', '"', '""', ',', ';', '|', '\t', '\n'],
    ...['\r\n', ' ', '0123', '\\', '[~]', '\0', '\x7f'],
  ])

/** A byte order mark of UTF-8 or UTF-16 in the middle of text. */
const mark: Piece = (random) =>
  random.oneOf([Buffer.of(0xef, 0xbb, 0xbf), Buffer.of(0xff, 0xfe), Buffer.of(0xfe, 0xff)])

const ascii: Piece = (random) => Buffer.from(asciiRun(random), 'latin1')
const lineEnd: Piece = () => Buffer.from('\n')
const anyBytes: Piece = (random) =>
  Buffer.from(Array.from({ length: random.between(1, 5) }, () => byte(random)))
const highBytes: Piece = (random) =>
  Buffer.from(Array.from({ length: random.between(1, 6) }, () => highByte(random)))
const leadBeforeAscii: Piece = (random) => Buffer.of(highByte(random), random.between(0, 0x7f))

/** Pairs of the ranges that double-byte sets share; most have a character. */
const pairs: Piece = (random) =>
  Buffer.from(
    Array.from({ length: random.between(1, 4) }, () => [
      random.between(0xa1, 0xfe),
      random.between(0xa1, 0xfe),
    ]).flat(),
  )
const mixedPairs: Piece = (random) =>
  Buffer.of(
    random.between(0x81, 0xfe),
    random.oneOf([random.between(0x40, 0x7e), random.between(0x80, 0xfe)]),
  )
const fourBytes: Piece = (random) =>
  Buffer.of(
    random.oneOf([random.between(0x81, 0x84), random.between(0x90, 0xe4), random.between(0x81, 0xfe)]),
    random.between(0x30, 0x39),
    random.between(0x81, 0xfe),
    random.between(0x30, 0x39),
  )
/** U+FFFD in GB18030, its neighbour, and four bytes that begin as it does. */
const replacementInGb18030: Piece = (random) =>
  Buffer.of(0x84, 0x31, random.oneOf([0xa4, 0xa5]), random.between(0x36, 0x39))

const utf8: Piece = (random) => Buffer.from(String.fromCodePoint(anyCodePoint(random)))
const wrongUtf8: Piece = (random) =>
  random.oneOf([
    Buffer.of(0xc0, 0x80),
    Buffer.of(0xed, 0xa0, 0x80),
    Buffer.of(0xf4, 0x90, 0x80, 0x80),
    Buffer.of(0xf5, 0x80, 0x80, 0x80),
    Buffer.of(0xe0, 0x80, 0xaf),
    utf8(random).subarray(0, random.between(1, 3)),
    Buffer.from('\ufffd'),
  ])

function anyCodePoint(random: Random): number {
  const codePoint = random.oneOf([
    random.between(0x80, 0x24f),
    random.between(0x80, 0xffff),
    random.between(0x10000, 0x10ffff),
    0xfffd,
    0xfeff,
    0x2028,
  ])
  return codePoint >= 0xd800 && codePoint <= 0xdfff ? 0xfffd : codePoint
}

const units = (text: string, set: DecodedSet): Buffer => {
  const bytes = Buffer.from(text, 'utf16le')
  return set === 'utf-16be' ? bytes.swap16() : bytes
}

/** Many texts have no odd byte in their middle, after which nothing is text. */
const utf16Pieces = (set: DecodedSet): Piece[] => [
  (random) => units(asciiRun(random), set),
  (random) => units(asciiRun(random), set),
  (random) => units(String.fromCodePoint(anyCodePoint(random)), set),
  (random) => units(String.fromCodePoint(anyCodePoint(random)), set),
  (random) =>
    random.chance(0.3) ? units(String.fromCharCode(random.between(0xd800, 0xdfff)), set) : Buffer.of(),
  (random) => (random.chance(0.1) ? anyBytes(random) : Buffer.of()),
]

const doubleBytePieces: Piece[] = [
  ...[ascii, ascii, lineEnd, pairs, pairs, mixedPairs, fourBytes, replacementInGb18030],
  ...[leadBeforeAscii, anyBytes, highBytes, mark],
]

const singleBytePieces: Piece[] = [ascii, lineEnd, highBytes]

const pieces: Readonly<Record<DecodedSet, readonly Piece[]>> = {
  ...{ 'utf-8': [ascii, lineEnd, utf8, utf8, utf8, wrongUtf8, anyBytes, mark] },
  ...{ 'utf-16le': utf16Pieces('utf-16le'), 'utf-16be': utf16Pieces('utf-16be') },
  ...{
    shift_jis: doubleBytePieces,
    gbk: doubleBytePieces,
    big5: doubleBytePieces,
    'euc-kr': doubleBytePieces,
  },
  ...{
    'iso-8859-1': singleBytePieces,
    'iso-8859-2': singleBytePieces,
    'iso-8859-15': singleBytePieces,
  },
  ...{
    'windows-1250': singleBytePieces,
    'windows-1251': singleBytePieces,
    'windows-1252': singleBytePieces,
  },
}

const piecesOf = (set: DecodedSet): readonly Piece[] => pieces[set]
