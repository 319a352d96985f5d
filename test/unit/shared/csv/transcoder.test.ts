import t from 'tap'
import { transcoder, type TranscodedSet } from '../../../../shared/csv/transcoder.ts'

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

const multiByte: [set: TranscodedSet, leadByte: number, trailByte: number, character: string][] = [
  ['shift_jis', 0x82, 0xa0, 'あ'],
  ['gbk', 0xd2, 0xbb, '一'],
  ['big5', 0xa4, 0x40, '一'],
  ['euc-kr', 0xb0, 0xa1, '가'],
]

t.test('lines that are there are converted at once, and a character waits for its last byte', async (t) => {
  for (const [set, lead, trail, character] of multiByte) {
    const conversion = transcoder(set)
    t.equal(conversion.write(Buffer.from([lead, trail, 0x0a, lead])).toString(), `${character}\n`, set)
    t.equal(conversion.write(Buffer.from([trail, 0x2c])).toString(), `${character},`, set)
    t.equal(conversion.end().toString(), '')
  }
  for (const [set, bytes] of [
    ['utf-16le', [0x41, 0, 0x3d, 0xd8]],
    ['utf-16be', [0, 0x41, 0xd8, 0x3d]],
  ] as const)
    t.equal(transcoder(set).write(Buffer.from(bytes)).toString(), 'A', set)
})

t.test('no character is cut in a piece of many lines, however long the piece is', async (t) => {
  const lines = 'a,b\n'.repeat(600 * 1024)
  for (const [set, lead, trail, character] of multiByte) {
    const conversion = transcoder(set)
    const first = conversion.write(Buffer.concat([Buffer.from(lines), Buffer.of(lead)])).toString()
    const second = conversion.write(Buffer.of(trail, 0x0a)).toString()
    t.ok(first + second + conversion.end().toString() === `${lines}${character}\n`, set)
  }
})

t.test('2 MiB of a line without an end are kept, and are cut anywhere beyond that', async (t) => {
  const mebibyte = Buffer.alloc(1024 * 1024, 'A')
  const conversion = transcoder('shift_jis')
  const written = [mebibyte, mebibyte, Buffer.from('A'), mebibyte].map(
    (piece) => conversion.write(piece).length,
  )
  t.same(written, [0, 0, 2 * 1024 * 1024 + 1, 0])
  t.equal(conversion.end().length, 1024 * 1024)
})

t.test('U+FFFD of a file may be there by the hundred thousand', async (t) => {
  const code = Buffer.of(0x84, 0x31, 0xa4, 0x37)
  const times = 250_000
  const conversion = transcoder('gbk')
  const text = Buffer.concat([
    conversion.write(Buffer.concat([Buffer.alloc(4 * times, code), Buffer.of(0x0a)])),
    conversion.end(),
  ])
  t.ok(text.equals(Buffer.from(`${'\ufffd'.repeat(times)}\n`)))
})
