import { execFileSync } from 'node:child_process'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { findNonTable, findOfficeZip, findOfficeFile } from '../../../../shared/csv/no-table.ts'

/** First headers and first cells that look like the beginning of another format. */
const beginnings = [
  [
    ...['PK', 'BM', 'ID', 'GIF', 'GIF89a', 'GIF87a', 'II*', 'MM'],
    ...['RIFF', 'Rar!', 'BZh', 'BZh9', '7z', 'xz', 'tar', 'ustar'],
  ],
  [
    ...['%PDF', '%PDF-', '%!PS', 'PNG', '\u0089PNG', 'JFIF', 'Exif'],
    ...['ftyp', 'MThd', 'OggS', 'SQLite', 'Obj', 'MZ', 'ELF'],
  ],
  [
    ...['[Email]', '{Email}', '<Email>', '[[Email]]', '{{email}}'],
    ...['{{ contact.email }}', '{$email}', '[Email', '{Email', '<Email'],
  ],
  [
    ...['[]', '{}', '<>', '[1]', '[0]', '["Email"]', '{"Email"}'],
    ...['[{Email}]', '<html>', '<HTML>', '<Body>', '<Title>', '<Table>'],
  ],
  [
    ...['<Head>', '<p>', '<b>Email</b>', '<i>Mail</i>', '<?', '<?xml'],
    ...['<!-- -->', '<!--', '<!DOCTYPE', '<svg>', '<ann@example.com>'],
  ],
  [
    ...['{"plan":"pro"}', '[1,2]', '{\\rtf', '# Email', '// Email', '--'],
    ...['---', 'sep', '"<Email>"', '"[Email]"', '"{Email}"', "'[Email]'"],
  ],
  [
    ...['BEGIN:VCARD', 'BEGIN', 'Begin transaction', 'dn', 'dn: x', 'version: 1', 'version'],
    ...['Create Table', 'Create table date', 'Insert', 'Insert date (values)', 'Set Name'],
    ...['Set names', 'Set define off', 'Set on', 'Rem', 'REM sleep', 'Replace into'],
    ...['Truncate table', 'Use case', 'Copy', 'Pragma', '-- Email', '/* Email */', '\\N'],
  ],
].flat()

const separators = [',', ';', '\t', '|']

t.test('tables are no other format, whatever their first header is', async (t) => {
  t.ok(new Set(beginnings).size >= 60)
  for (const first of beginnings) {
    for (const separator of separators) {
      const rows = [
        [first, '<Name>', '[Note]'],
        ['ann@example.com', 'Ann', '<b>hi</b>'],
        ['<bob@example.com>', '{"a":1}', '</Email>'],
      ]
      const table = rows.map((row) => row.join(separator)).join('\r\n')
      t.equal(findNonTable(Buffer.from(table)), null, JSON.stringify(table.slice(0, 20)))
      t.equal(findNonTable(Buffer.from(`\ufeff${table}`)), null, `${first} behind a mark`)
      t.equal(findNonTable(Buffer.from(`\ufeff${table}`, 'utf16le')), null, `${first} in UTF-16`)
      t.equal(findNonTable(Buffer.from(table, 'latin1')), null, `${first} in ISO-8859-1`)
    }
    if (first.includes(',')) continue
    const column = `${first}\nann@example.com\n<bob@example.com>\n`
    t.equal(findNonTable(Buffer.from(column)), null, `the only column is ${first}`)
  }
  for (const cell of ['<p>Hi</p>', '<h1>A</h1>', '<p>', '<title>'])
    t.equal(findNonTable(Buffer.from(`${cell},Email\n<p>Yes</p>,ann@example.com\n<p></p>`)), null, cell)
  for (const empty of ['', '\n', 'a', '<', '[', '{', 'PK', '\ufeff'])
    t.equal(findNonTable(Buffer.from(empty)), null, JSON.stringify(empty))
})

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')
const rows = '<row><email>ann@example.com</email></row>\n'.repeat(3_000)
const json = JSON.stringify(Array.from({ length: 5_000 }, (_, i) => ({ email: `ann${i}@example.com` })))

/** Texts, as servers and programs write them. */
const others: [kind: RegExp, content: Buffer | string][] = [
  [/an SVG image/, '<?xml version="1.0"?>\n<svg width="1" xmlns="http://www.w3.org/2000/svg"><g/></svg>'],
  [/an HTML page/, '<!DOCTYPE html>\n<html lang="en"><head></head></html>'],
  [/an HTML page/, '\ufeff\n <!doctype HTML PUBLIC "-//W3C//DTD HTML 4.01//EN"><html></html>'],
  [/an HTML page/, '<html>\n\t<head>\n<title>Sign in</title></head></html>'],
  [/an HTML page/, '<h1>Not found</h1>\n'],
  [/an HTML page/, '<p>Please sign in.</p><p>Then try again.</p>'],
  [/an HTML page/, '<script type="text/javascript">\nlocation = "/login?a=1,2"\n</script>'],
  [/an HTML page/, '<title>Sign in</title>\n<form></form>'],
  [/an HTML page/, '<!-- saved -->\n<HTML xmlns:x="urn:x"><META charset="utf-8"><body></body></html>'],
  [/an HTML page/, '<table border="1">\r\n<tr><th>Email</th></tr></table>'],
  [/an HTML page/, '<?xml version="1.0"?><!DOCTYPE html PUBLIC "x" "y"><html xmlns="z"></html>'],
  [/an HTML page/, Buffer.from('\ufeff<html><body>x</body></html>', 'utf16le')],
  [/an HTML page/, '<html>Please sign in</html>\n'],
  [/an HTML page/, '<html>\r<head>\r<title>Sign in</title>'],
  [/an HTML page/, '<meta http-equiv="refresh" content="0; url=/login">'],
  [/an HTML page/, '<form action="/login"><input name="user"></form>'],
  [
    /an Excel workbook in XML/,
    '<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?>\n<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">',
  ],
  [
    /an OpenDocument file in XML/,
    '<?xml version="1.0"?><office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0">',
  ],
  [/an XML document/, '<?xml version="1.0" encoding="UTF-8"?>\n<rows/>'],
  [
    /an XML document/,
    '<subscribers>\n  <subscriber id="1">\n    <Email>ann@example.com</Email>\n  </subscriber>\n</subscribers>',
  ],
  [/an XML document/, '<rows><row email="ann@example.com"/></rows>'],
  [/an XML document/, `<export>\n<rows>\n${rows}</rows>\n</export>`],
  [
    /an XML document/,
    `<s:Envelope xmlns:s="urn:s">\n <s:Body>\n  <list>${rows}</list></s:Body></s:Envelope>`,
  ],
  [/an XML document/, '<!DOCTYPE rows SYSTEM "rows.dtd">\n<rows/>'],
  [/JSON/, '{"subscribers": [{"email": "ann@example.com"}]}'],
  [/JSON/, '[\n  {\n    "email": "ann@example.com"\n  }\n]\n'],
  [/JSON/, '{"email":"ann@example.com"}\n{"email":"bob@example.com"}\n'],
  [/JSON/, '[["ann@example.com", "Ann"], ["bob@example.com", "Bob"]]'],
  [/JSON/, '["ann@example.com", "a]b\\"@example.com"]'],
  [/JSON/, json],
  [/JSON/, json.slice(0, 70_000)],
  [/JSON/, '{"email": "ann@example.com", "na'],
  [/JSON/, '\ufeff[]'],
  [/a vCard/, 'BEGIN:VCARD\nVERSION:3.0\nFN:Ann Lee\nEMAIL:ann@example.com\nEND:VCARD\n'],
  [/a vCard/, '\ufeffbegin:vcard\r\nVERSION:2.1\r\n'],
  [/a vCard/, Buffer.from('\ufeffBEGIN:VCARD\r\nVERSION:4.0\r\n', 'utf16le')],
  [/a calendar/, 'BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\n'],
  [/an LDIF file/, 'dn: cn=Ann,dc=example,dc=com\nobjectClass: person\nmail: ann@example.com\n'],
  [/an LDIF file/, 'version: 1\n\n# extended LDIF\n#\ndn:: Y249QW5u\nmail: ann@example.com\n'],
  [
    /an LDIF file/,
    'dn: cn=Ann Lee,ou=a very long name of a unit,\n dc=example,dc=com\nmail;lang-en: a@b.co\n',
  ],
  [
    /an SQL dump/,
    '-- MySQL dump 10.13  Distrib 8.0.36\n--\n/*!40101 SET NAMES utf8mb4 */;\nDROP TABLE IF EXISTS `people`;\nCREATE',
  ],
  [/an SQL dump/, '--\n-- PostgreSQL database dump\n--\n\n\\restrict abc\n\nSET statement_timeout = 0;\n'],
  [/an SQL dump/, 'PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE people(email text);\n'],
  [/an SQL dump/, '-- phpMyAdmin SQL Dump\n\nSET SQL_MODE = "NO_AUTO_VALUE_ON_ZERO";\nSTART TRANSACTION;\n'],
  [/an SQL dump/, "INSERT INTO `people` (`email`, `name`) VALUES\n('ann@example.com', 'Ann');\n"],
  [/an SQL dump/, "INSERT [dbo].[People] ([Email]) VALUES (N'ann@example.com')\nGO\n"],
  [/an SQL dump/, 'create table people\n(\n  email text\n);'],
  [/an SQL dump/, 'COPY public.people (email, name) FROM stdin;\nann@example.com\tAnn\n'],
  [/an SQL dump/, 'USE [Contacts]\nGO\n'],
  // SQL Server's scripts, SQL Developer, Adminer, and transactions around inserts.
  [
    /an SQL dump/,
    '/****** Object:  Table [dbo].[People] ******/\r\nSET ANSI_NULLS ON\r\nGO\r\nSET QUOTED_IDENTIFIER ON\r\n',
  ],
  [
    /an SQL dump/,
    'SET IDENTITY_INSERT [dbo].[People] ON \r\nGO\r\nINSERT [dbo].[People] ([Id]) VALUES (1)\r\n',
  ],
  [
    /an SQL dump/,
    "REM INSERTING into HR.PEOPLE\nSET DEFINE OFF;\nInsert into HR.PEOPLE (ID) values ('1');\n",
  ],
  [/an SQL dump/, "-- Adminer 4.8.1 MySQL 8.0.36 dump\n\nSET NAMES utf8;\nSET time_zone = '+00:00';\n"],
  [/an SQL dump/, "BEGIN;\nINSERT INTO people VALUES ('ann@example.com');\n"],
  [/an SQL dump/, "REPLACE INTO `people` (`email`) VALUES ('ann@example.com');\n"],
  [/an SQL dump/, 'TRUNCATE TABLE people;\n'],
]

t.test('what is no table is named, with what to do', async (t) => {
  for (const [kind, content] of others) {
    const sentence = findNonTable(Buffer.from(content))
    t.match(sentence, kind, String(content.slice(0, 30)))
    t.match(sentence, /CSV UTF-8/)
  }
  t.equal(findNonTable(gzipSync('a')), null, 'containers are unpacked and not named')
})

t.test('the time that a text takes grows with its length alone', async (t) => {
  const size = 64 * 1024
  for (const start of [
    ...['', 'create table ', 'create table a', 'insert ', 'copy ', 'set '],
    ...['set names ', 'set identity_insert ', 'rem ', 'replace into '],
    ...['truncate table ', 'begin transaction', 'begin;', 'dn: '],
  ])
    for (const unit of [
      ...[' ', '\n', '(', '-- \n', '/*', '/* */', '#\n', 'values ', ' from ', 'a', '\n ', '\\a\n'],
    ]) {
      const bytes = Buffer.from(start + unit.repeat(size / unit.length))
      const before = process.threadCpuUsage().user
      findNonTable(bytes)
      const ms = (process.threadCpuUsage().user - before) / 1000
      t.ok(ms < 200, `${start}${JSON.stringify(unit)} took ${ms} ms`)
    }
})

t.test('an Office file is told from other zips by the names in it', async (t) => {
  const cases: [kind: RegExp | null, names: string[], head?: Buffer][] = [
    [/an Excel workbook \(\.xlsx, \.xlsb\)/, ['[Content_Types].xml', '_rels/.rels', 'xl/workbook.xml']],
    [/an Excel workbook/, ['[Content_Types].xml', 'xl/workbook.bin']],
    [/a Word document/, ['[Content_Types].xml', 'word/document.xml']],
    [/a PowerPoint presentation/, ['ppt/presentation.xml', '[Content_Types].xml']],
    [/an Office file/, ['[Content_Types].xml', 'visio/document.xml']],
    [
      /an OpenDocument workbook \(\.ods\)/,
      ['mimetype', 'content.xml'],
      member('mimetype', 'application/vnd.oasis.opendocument.spreadsheet'),
    ],
    [
      /an OpenDocument file/,
      ['mimetype', 'content.xml'],
      member('mimetype', 'application/vnd.oasis.opendocument.text'),
    ],
    [/an OpenDocument file/, ['content.xml', 'mimetype', 'META-INF/manifest.xml']],
    [/an Apple iWork file/, ['Index/Document.iwa']],
    [null, ['subscribers.csv']],
    [null, ['xl/subscribers.csv']],
    [null, ['mimetype', 'subscribers.csv']],
  ]
  for (const [kind, names, head = member(names[0]!)] of cases) {
    const sentence = findOfficeZip(names, head)
    if (kind === null) t.equal(sentence, null, names.join())
    else t.match(sentence, kind)
  }
  const workbook = Buffer.concat([
    member('[Content_Types].xml', '<Types/>'),
    member('xl/workbook.xml', '<x/>'),
  ])
  t.match(findNonTable(workbook), /an Excel workbook/, 'pasted into a request')
  t.match(findNonTable(member('a.csv', 'x')), /a zip archive/)
})

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
    t.match(findNonTable(bytes), /CSV UTF-8/, name)
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

const tarFile = (...options: string[]): Buffer =>
  execFileSync('tar', [...options, '-cf', '-', '-C', import.meta.dirname, 'no-table.test.ts'])

/** A table of numbers, of more than 512 bytes, with what `cell` makes of the right checksum, in the place of a tar header's. */
function tableWith(cell: (checksum: number) => string): Buffer {
  const bytes = Buffer.from('Points,Rank\n' + '1,2\n'.repeat(200))
  const checksum = bytes.fill(' ', 148, 156).reduce((sum, byte, i) => (i < 512 ? sum + byte : sum), 0)
  bytes.write(cell(checksum).padEnd(8, ';'), 148)
  return bytes
}

t.test('a tar archive is recognized by the checksum of its first header', async (t) => {
  for (const format of ['v7', 'oldgnu', 'gnu', 'ustar', 'pax']) {
    const archive = tarFile(`--format=${format}`)
    t.match(findNonTable(archive), /a tar archive/, format)
    t.match(findNonTable(archive.subarray(0, 512)), /a tar archive/, `only the header of ${format}`)
    t.equal(findNonTable(archive.subarray(0, 511)), null)
    t.equal(findNonTable(joined('x', archive)), null, `${format} further back`)
  }
  // Unix V7 wrote the checksum with leading blanks.
  const old = tarFile('--format=v7')
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

const html = 'an HTML page'
const xml = 'an XML document'

/** Whole documents and beginnings of longer ones, as servers and programs write them. */
const markup: [kind: string, text: string][] = [
  [html, '<!DOCTYPE html>\n<link rel="stylesheet" href="a.css">\n<p class=note>Please sign in'],
  [html, '<!doctype HTML PUBLIC "-//W3C//DTD HTML 4.01//EN">\n<p class=note>Please sign in'],
  [html, '<!DOCTYPE  html  SYSTEM "about:legacy-compat">\n<p class=note>Please sign in'],
  [html, '<!DOCTYPE\n\thtml>\n<p class=note>Please sign in'],
  [html, '<!-- a -->\n\n<!-- b -->\n<!DOCTYPE html>\nPlease sign in'],
  [html, '<HTML><HEAD><TITLE>Sign in'],
  [html, '<html lang="en">\n  <head>\n    <meta charset="utf-8">\n'],
  [html, '<title>Not found</title\n>\n<p>Sorry'],
  [html, '<Title>Not found</TITLE>'],
  [html, '<meta charset="utf-8">\nPlease sign in'],
  [html, '<meta\n  http-equiv="refresh" content="0; url=/login">'],
  [html, '<meta charset = "utf-8">'],
  [html, '<html><body><svg width="1" xmlns="http://www.w3.org/2000/svg"></svg>'],
  [xml, '<?xml version="1.0"?><rows>'],
  [xml, "<?xml  version = '1.0' ?>\n<rows>"],
  [xml, '<?xml\n  version\n="1.0"?>\n<rows>'],
  [xml, '<!DOCTYPE rows SYSTEM "rows.dtd">\n<rows'],
  [xml, '<!DOCTYPE rows[<!ELEMENT rows ANY>]>\n<rows'],
  ['an SVG image', '<svg width="1" xmlns="http://www.w3.org/2000/svg">'],
  ['an SVG image', '<!-- drawn by hand -->\n<svg\n  xmlns="http://www.w3.org/2000/svg">'],
  [
    'an Excel workbook in XML',
    '<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">',
  ],
  [
    'an OpenDocument file in XML',
    '<?xml version="1.0"?><office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0">',
  ],
]

/** The text in each encoding in which a file may be: UTF-8 and UTF-16 in both byte orders, with a mark and without. */
function encodings(text: string): [name: string, bytes: Buffer][] {
  return ['', '\ufeff'].flatMap((mark): [string, Buffer][] => [
    [`UTF-8 ${mark}`, Buffer.from(mark + text)],
    [`UTF-16LE ${mark}`, Buffer.from(mark + text, 'utf16le')],
    [`UTF-16BE ${mark}`, Buffer.from(mark + text, 'utf16le').swap16()],
  ])
}

t.test('markup is named in each encoding, whole or cut', async (t) => {
  for (const [kind, text] of markup)
    for (const [name, bytes] of encodings(text))
      t.match(findNonTable(bytes), new RegExp(`^the file is ${kind}`), `${name} ${JSON.stringify(text)}`)
})

const jsonTexts: string[] = [
  ...['[]', '{}', '{"email": "ann@example.com"}', '\n [1, 2]\n', '{"a":[1]}\n{"a":[2]}\n', '[1] [2]'],
  // Longer than what is read of it, or cut: an array or object whose end isn't there.
  ...[
    '{"email":"ann@exa',
    '{ "email" : "ann@exa',
    '{\n\t"email"\n\t: [',
    '[{"email":"ann@exa',
    '[\n  {\n    "email" : "a',
  ],
  ...[
    '[["ann@example.com","Ann"],["bob',
    '[\n  [\n    "ann@example.com"  ,\n    "Ann',
    '["ann@example.com"\n,"bob',
  ],
  ...[
    '["",',
    '["a",',
    '["ann@example.com",',
    '["a \\" b",',
    '["a\\\\","b',
    '[["ann@example.com"],["bob@e',
    '[["ann"\n]\n,[',
  ],
  ...[
    '[[1,2],[3',
    '[[17,18],[19',
    '[\n\t[\n\t\t-1.5 ,\n',
    '[ [ 42 ] , [ 43',
    '[[1],',
    '[[1]  ,[2',
    '[[-1],[',
  ],
  ...['{"note": "see {1} or }', '[{"note": "1] a, 2] b'],
]

t.test('JSON is named in each encoding, whole or cut', async (t) => {
  for (const text of jsonTexts)
    for (const [name, bytes] of encodings(text))
      t.match(findNonTable(bytes), /^the file is JSON/, `${name} ${JSON.stringify(text)}`)
})

/** First headers in brackets, and cells that hold markup or JSON. */
const tables: string[] = [
  ...[
    ...['[Email]', '{Email}', '{{email}}', '<Email>', '[Email'],
    ...['{Email', '<Email', '[Email]\n[Name]', '{Email}\n{Name}'],
  ],
  '<Email>,Page\nann@example.com,<?xml version="1.0"?><rows/>',
  '<Email>;Page\nann@example.com;<meta charset="utf-8">',
  '<Email>,Page\nann@example.com,<html><head><title>Hello</title></head></html>',
  '<Email>,Drawing\nann@example.com,<svg xmlns="http://www.w3.org/2000/svg"></svg>',
  '<Email>,Rows\nann@example.com,<rows><row/></rows>',
  '<Email>,Page\nann@example.com,<!DOCTYPE html>',
  '[Email,Tags\nann@example.com,["a","b"]',
  '[Email,Points\nann@example.com,[[1,2]',
  '[Email,Plan\nann@example.com,{"plan":"pro"',
  '{Email,Plan\nann@example.com,{"plan":"pro"',
  'Email,Plan\nann@example.com,{"plan":"pro"}',
  'Email,Plan\nann@example.com,[{"plan":"pro"}',
  '{"plan":"pro"},ann@example.com\n{"plan":"free"},bob@example.com',
  '[1,2];ann@example.com',
  '["a"];ann@example.com',
  '["Email];["Name]\nann@example.com;Ann',
  '["Email" address],[Name]]\nann@example.com;Ann',
  '[[Email],[Name]\nann@example.com,Ann',
  '[[1st],[2nd]\nann@example.com,Ann',
  '[Email] [Name]\nann@example.com',
]

t.test('a table is read though its headers have brackets and its cells hold markup or JSON', async (t) => {
  for (const text of tables)
    for (const [name, bytes] of encodings(text))
      t.equal(findNonTable(bytes), null, `${name} ${JSON.stringify(text)}`)
})
