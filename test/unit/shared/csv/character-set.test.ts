import t from 'tap'
import {
  characterSetName,
  isTranscoded,
  recordDecoder,
  textEncoder,
} from '../../../../shared/csv/character-set.ts'
import type { CharacterSet } from '../../../../shared/contract/schemas/import.ts'

t.test('messages have the names of the contract, and sets of several bytes are converted', async (t) => {
  const decodedInPlace: [CharacterSet, string][] = [
    ['utf-8', 'UTF-8'],
    ['iso-8859-1', 'ISO-8859-1'],
    ['windows-1252', 'windows-1252'],
    ['windows-1250', 'windows-1250'],
    ['windows-1251', 'windows-1251'],
    ['iso-8859-2', 'ISO-8859-2'],
    ['iso-8859-15', 'ISO-8859-15'],
  ]
  const converted: [CharacterSet, string][] = [
    ['utf-16le', 'UTF-16LE'],
    ['utf-16be', 'UTF-16BE'],
    ['utf-16', 'UTF-16'],
    ['shift_jis', 'Shift_JIS'],
    ['gbk', 'GBK'],
    ['big5', 'Big5'],
    ['euc-kr', 'EUC-KR'],
  ]
  for (const [set, name] of [...decodedInPlace, ...converted]) t.equal(characterSetName(set), name)
  for (const [set] of decodedInPlace) t.notOk(isTranscoded(set), set)
  for (const [set] of converted) t.ok(isTranscoded(set), set)
})

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
