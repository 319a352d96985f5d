import t from 'tap'
import { recordDecoder, textEncoder } from '../../../shared/csv/character-set.ts'
import { transcoder, type TranscodedSet } from '../../../shared/csv/transcoder.ts'
import type { CharacterSet } from '../../../shared/contract/schemas/import.ts'

const decoded = (set: CharacterSet, bytes: number[]): string => {
  // The bytes next to a record don't belong to it.
  const around = Buffer.from([0x80, ...bytes, 0x80])
  return recordDecoder(set).decode(around, 1, 1 + bytes.length)
}

function isValid(set: CharacterSet, bytes: number[]): boolean {
  // The bytes next to a record don't belong to it.
  const around = Buffer.from([0x81, ...bytes, 0x98])
  return recordDecoder(set).isValid(around, 1, 1 + bytes.length)
}

t.test('single-byte sets are decoded by their tables', async (t) => {
  const rows: [CharacterSet, number[], string][] = [
    ['iso-8859-1', [0x41, 0x80, 0xa4, 0xff], 'A\u0080\u00a4\u00ff'],
    ['windows-1252', [0x41, 0x80, 0x93, 0x9f, 0xe9], 'A€“Ÿé'],
    ['windows-1250', [0x41, 0x8a, 0xb3, 0xea], 'AŠłę'],
    ['windows-1251', [0xc0, 0xff, 0xa8, 0x88], 'АяЁ€'],
    ['iso-8859-2', [0xa3, 0xb1, 0x9f], 'Łą\u009f'],
    ['iso-8859-15', [0xa4, 0xbd, 0x80], '€œ\u0080'],
  ]
  for (const [set, bytes, text] of rows) {
    t.equal(decoded(set, bytes), text, set)
    t.equal(decoded(set, [0x41, 0x42]), 'AB', set)
    t.ok(isValid(set, bytes), set)
  }
  const long = Array.from({ length: 20_000 }, () => 0x80)
  t.equal(decoded('windows-1252', long), '€'.repeat(20_000), 'a record that is longer than the buffer')
})

t.test('the bytes that Windows sets leave undefined are undecodable', async (t) => {
  const undefinedBytes: [CharacterSet, number[]][] = [
    ['windows-1252', [0x81, 0x8d, 0x8f, 0x90, 0x9d]],
    ['windows-1250', [0x81, 0x83, 0x88, 0x90, 0x98]],
    ['windows-1251', [0x98]],
    ['iso-8859-1', []],
    ['iso-8859-2', []],
    ['iso-8859-15', []],
  ]
  for (const [set, expected] of undefinedBytes) {
    const found = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !isValid(set, [0x41, byte]))
    t.same(found, expected, set)
    for (const byte of expected) t.equal(decoded(set, [byte]), '\ufffd')
  }
})

t.test('U+FFFD in UTF-8 is a character like any other', async (t) => {
  t.ok(isValid('utf-8', [0xef, 0xbf, 0xbd]))
  t.notOk(isValid('utf-8', [0xef, 0xbf, 0xbd, 0xff]))
  t.notOk(isValid('shift_jis', [0xff]), 'what is transcoded is staged as UTF-8')
})

t.test('a log is written in the set, with ? for what it lacks', async (t) => {
  const rows: [CharacterSet, string, number[]][] = [
    ['iso-8859-1', 'é€\u0080😀x', [0xe9, 0x3f, 0x80, 0x3f, 0x78]],
    ['windows-1252', 'é€\u0080\ufffdx', [0xe9, 0x80, 0x3f, 0x3f, 0x78]],
    ['windows-1251', 'Яé', [0xdf, 0x3f]],
    ['iso-8859-15', '€¤', [0xa4, 0x3f]],
    ['utf-8', 'é', [0xc3, 0xa9]],
    ['gbk', 'é', [0xc3, 0xa9]],
  ]
  for (const [set, text, bytes] of rows) t.same([...textEncoder(set)(text)], bytes, set)
})

/** The UTF-8 of bytes that come in pieces of `size`, with <FF> for the invalid byte. */
function transcoded(set: TranscodedSet, bytes: Buffer, size: number): string {
  const conversion = transcoder(set)
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) pieces.push(conversion.write(bytes.subarray(at, at + size)))
  const all = Buffer.concat([...pieces, conversion.end()])
  const parts: Buffer[] = []
  let from = 0
  for (let at = all.indexOf(0xff); at !== -1; at = all.indexOf(0xff, from)) {
    parts.push(all.subarray(from, at), Buffer.from('<FF>'))
    from = at + 1
  }
  return Buffer.concat([...parts, all.subarray(from)]).toString()
}

const rows: [set: TranscodedSet, bytes: number[], text: string][] = [
  ['shift_jis', [0x82, 0xa0, 0x2c, 0xb1, 0x87, 0x40, 0x81, 0x5c, 0x5c, 0x0a], 'あ,ｱ①―\\\n'],
  // ASCII after a lead byte that it does not fit, and a lead byte at the end.
  ['shift_jis', [0x81, 0x2c, 0x41, 0xa0, 0x0a, 0x81], '<FF>,A<FF>\n<FF>'],
  ['gbk', [0xd2, 0xbb, 0x80, 0x2c, 0x81, 0x30, 0x81, 0x30, 0x0a], '一€,\u0080\n'],
  ['gbk', [0x94, 0x39, 0xda, 0x33, 0x2c, 0xff, 0x81, 0x0a], '💩,<FF><FF>\n'],
  // U+FFFD of the file beside undecodable bytes.
  ['gbk', [0xff, 0x84, 0x31, 0xa4, 0x37, 0x41, 0xff, 0x84, 0x31, 0xa4, 0x37], '<FF>\ufffdA<FF>\ufffd'],
  ['gbk', [0x84, 0x31, 0xa4, 0x36], '\ufffc'],
  ['big5', [0xa4, 0x40, 0x88, 0x62, 0x2c, 0x87, 0x40, 0x80, 0x0a], '一Ê̄,䏰<FF>\n'],
  ['euc-kr', [0xb0, 0xa1, 0x81, 0x41, 0x2c, 0xc9, 0x2c, 0xff], '가갂,<FF>,<FF>'],
  ['utf-16le', [0x41, 0, 0x3d, 0xd8, 0, 0xde, 0xe9, 0], 'A😀é'],
  ['utf-16be', [0, 0x41, 0xd8, 0x3d, 0xde, 0, 0, 0xe9], 'A😀é'],
  ['utf-16le', [0x3d, 0xd8, 0x41, 0, 0, 0xde, 0xfd, 0xff, 0x3d, 0xd8], '<FF>A<FF>\ufffd<FF>'],
  ['utf-16be', [0xd8, 0x3d, 0xd8, 0x3d, 0xde, 0, 0x41], '<FF>😀<FF>'],
  ['utf-16le', [0x41, 0, 0x0a, 0, 0x42], 'A\n<FF>'],
]

t.test('other sets become UTF-8, however their pieces are cut', async (t) => {
  for (const [set, bytes, text] of rows)
    for (let size = 1; size <= bytes.length; size += 1)
      t.equal(transcoded(set, Buffer.from(bytes), size), text, `${set} in pieces of ${size}`)
})

t.test('no piece is kept that is longer than a record may be', async (t) => {
  const conversion = transcoder('shift_jis')
  let written = 0
  for (let i = 0; i < 64; i += 1) written += conversion.write(Buffer.alloc(128 * 1024, 'A')).length
  t.ok(written > 4 * 1024 * 1024)
  t.equal(written + conversion.end().length, 64 * 128 * 1024)
})
