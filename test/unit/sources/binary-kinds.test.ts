import { execFileSync } from 'node:child_process'
import t from 'tap'
import { findNonTable, findOfficeFile, findOfficeZip } from '../../../shared/csv/no-table.ts'

const hex = (digits: string): Buffer => Buffer.from(digits.replaceAll(' ', ''), 'hex')
const joined = (...parts: (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)))

/** The first bytes as each format's specification has them. */
const firstBytes: [kind: RegExp, name: string, bytes: Buffer][] = [
  [/an Excel workbook \(\.xls\)/, 'compound file', hex('d0cf11e0 a1b11ae1 00000000')],
  [/a PDF document/, 'PDF 1.4', joined('%PDF-1.4\n%')],
  [/a PDF document/, 'PDF 2.0', joined('%PDF-2.0\r\n')],
  [/a Rich Text document/, 'RTF', joined('{\\rtf1\\ansi')],
  [/a PNG image/, 'PNG', hex('89504e47 0d0a1a0a 0000000d')],
  ...['c0', 'c4', 'db', 'dd', 'e0', 'e1', 'ee', 'fe'].map((marker): [RegExp, string, Buffer] => [
    /a JPEG image/,
    `JPEG ${marker}`,
    hex(`ffd8ff${marker} 0010`),
  ]),
  [/a GIF image/, 'GIF87a of 1 x 1', hex('474946383761 0100 0100 80 00 00')],
  [/a GIF image/, 'GIF89a of 256 x 257', hex('474946383961 0001 0101 f7 01 31')],
  [/a GIF image/, 'GIF89a of 257 x 257', hex('474946383961 0101 0101 f7 01 00')],
  // Windows and OS/2 have had eight headers, known by their sizes.
  ...['0c', '10', '28', '34', '38', '40', '6c', '7c'].map((size): [RegExp, string, Buffer] => [
    /a BMP image/,
    `BMP ${size}`,
    hex(`424d 46a10300 0000 0000 36000000 ${size}000000 0200`),
  ]),
  [/a TIFF image/, 'TIFF, little-endian', hex('49492a00 08000000')],
  [/a TIFF image/, 'TIFF, big-endian', hex('4d4d002a 00000008')],
  ...['VP8 ', 'VP8L', 'VP8X'].map((chunk): [RegExp, string, Buffer] => [
    /a WebP image/,
    chunk,
    joined('RIFF', hex('24a10000'), 'WEBP', chunk),
  ]),
  ...['heic', 'heix', 'heif', 'mif1', 'msf1', 'avif', 'avis'].map((brand): [RegExp, string, Buffer] => [
    /a HEIF or AVIF image/,
    brand,
    joined(hex('00000018'), 'ftyp', brand, hex('00000000')),
  ]),
  [/an icon image/, 'ICO', hex('00000100 0100 1010')],
  [/a 7z archive/, '7z', hex('377abcaf271c 0004')],
  [/a RAR archive/, 'RAR 4', hex('526172211a0700 cf90')],
  [/a RAR archive/, 'RAR 5', hex('526172211a070100 3392')],
  [/packed with bzip2/, 'bzip2', hex('425a6839 314159265359 0102')],
  [/packed with bzip2/, 'bzip2 of nothing', hex('425a6839 177245385090 00000000')],
  [/packed with xz/, 'xz', hex('fd377a585a00 0004')],
]

t.test('pictures, documents and archives are named by their first bytes', async (t) => {
  for (const [kind, name, bytes] of firstBytes) {
    t.match(findNonTable(bytes), kind, name)
    t.match(findNonTable(joined(bytes, Buffer.alloc(100, 'a'))), kind, `${name}, and more`)
  }
})

t.test('a table that has such bytes further back is read', async (t) => {
  for (const [, name, bytes] of firstBytes) {
    t.equal(findNonTable(joined('x', bytes, ',Email\n')), null, `${name} in the first header`)
    t.equal(findNonTable(joined('Email,Attachment\nann@example.com,', bytes)), null, `${name} in a cell`)
  }
})

t.test('a table whose first header has but a part of such bytes is read', async (t) => {
  const headers = [
    ...['%PDF-', '%PDF-1', '%PDF-x.y', '{\\rtf', '{\\rtfx', 'GIF89a', 'GIF88a', 'BM', 'RIFF', 'RIFF....WEBP'],
    ...['II*', 'MM', 'Rar!', 'BZh9', 'BZh91AY', '7z', 'PK'],
  ]
  for (const header of headers) {
    t.equal(findNonTable(Buffer.from(header)), null, `${header} alone`)
    t.equal(findNonTable(Buffer.from(`${header},Email\nAnn,ann@example.com\n`)), null, header)
  }
  const unknownSize = hex('424d 46a10300 0000 0000 36000000 28010000')
  t.equal(findNonTable(unknownSize), null, 'a BMP header of a size that there is not')
})

const tar = (...options: string[]): Buffer =>
  execFileSync('tar', [...options, '-cf', '-', '-C', import.meta.dirname, 'binary-kinds.test.ts'])

/** A table of numbers, of more than 512 bytes, with what `cell` makes of the right checksum, in the place of a tar header's. */
function tableWith(cell: (checksum: number) => string): Buffer {
  const bytes = Buffer.from('Points,Rank\n' + '1,2\n'.repeat(200))
  const checksum = bytes.fill(' ', 148, 156).reduce((sum, byte, i) => (i < 512 ? sum + byte : sum), 0)
  bytes.write(cell(checksum).padEnd(8, ';'), 148)
  return bytes
}

t.test('a tar archive is recognized by the checksum of its first header', async (t) => {
  for (const format of ['v7', 'oldgnu', 'gnu', 'ustar', 'pax']) {
    const archive = tar(`--format=${format}`)
    t.match(findNonTable(archive), /a tar archive/, format)
    t.match(findNonTable(archive.subarray(0, 512)), /a tar archive/, `only the header of ${format}`)
    t.equal(findNonTable(archive.subarray(0, 511)), null)
    t.equal(findNonTable(joined('x', archive)), null, `${format} further back`)
  }
  // Unix V7 wrote the checksum with leading blanks.
  const old = tar('--format=v7')
  old.write(`  ${parseInt(old.toString('latin1', 148, 156), 8).toString(8)}\0`, 148)
  t.match(findNonTable(old), /a tar archive/)

  t.equal(findNonTable(tableWith((sum) => `${(sum + 1).toString(8)} `)), null, 'a number that is no checksum')
  for (const [start, end] of [
    ['', ','],
    ['', ',7 '],
    [',', ' '],
    ['-', ' '],
  ] as const)
    t.equal(
      findNonTable(tableWith((sum) => `${start}${sum.toString(8)}${end}`)),
      null,
      'a cell that equals it',
    )
})

/** A member of a zip that isn't compressed: local header, name and content. */
function member(name: string, content: Buffer | string = 'x'): Buffer {
  const header = Buffer.alloc(30)
  header.writeUInt32LE(0x04034b50)
  header.writeUInt32LE(content.length, 18)
  header.writeUInt16LE(name.length, 26)
  return joined(header, name, content)
}

t.test('a zip of which only the beginning is there is named by the names in it', async (t) => {
  const [types, sheet] = [member('[Content_Types].xml'), member('xl/workbook.xml')]
  const workbook = joined(types, sheet)
  for (let length = 4; length < types.length; length += 1)
    t.match(findNonTable(workbook.subarray(0, length)), /a zip archive|an Office file/, `${length} bytes`)
  for (let length = types.length; length < types.length + 33; length += 1)
    t.match(findNonTable(workbook.subarray(0, length)), /an Office file/, `${length} bytes`)
  for (let length = types.length + 33; length <= workbook.length; length += 1)
    t.match(findNonTable(workbook.subarray(0, length)), /an Excel workbook/, `${length} bytes`)
  t.match(findNonTable(joined(member('a.csv'), types, member('ppt/slides.xml'))), /a PowerPoint presentation/)
  t.match(findOfficeFile(workbook), /an Excel workbook/)
  t.equal(findOfficeFile(member('a.csv')), null)
  t.equal(findOfficeFile(joined('x', workbook)), null)
})

t.test('a zip that holds an OpenDocument workbook is no workbook', async (t) => {
  const sheet = member('mimetype', 'application/vnd.oasis.opendocument.spreadsheet')
  t.match(findOfficeZip(['mimetype'], sheet), /an OpenDocument workbook/)
  t.equal(findOfficeZip(['report.ods'], member('report.ods', sheet)), null)
})

t.test('Apple iWork files are known by their document, also inside of their bundle', async (t) => {
  for (const names of [
    ['Data/photo.jpg', 'Index/Document.iwa', 'Metadata/Properties.plist'],
    ['List.numbers/Data/photo.jpg', 'List.numbers/Index/Document.iwa'],
  ])
    t.match(findOfficeZip(names, member(names[0]!)), /an Apple iWork file/, names.join())
  t.equal(findOfficeZip(['Index/Document.iwa.csv'], member('Index/Document.iwa.csv')), null)
})
