import t from 'tap'
import {
  detectCharacterSet,
  encodingError,
  readBeginning,
  type RequestedFormat,
} from '../../../shared/csv/file-beginning.ts'

const marks = {
  'UTF-8': Buffer.of(0xef, 0xbb, 0xbf),
  'UTF-16LE': Buffer.of(0xff, 0xfe),
  'UTF-16BE': Buffer.of(0xfe, 0xff),
}
const little = (text: string) => Buffer.from(text, 'utf16le')
const big = (text: string) => Buffer.from(text, 'utf16le').swap16()
const joined = (...parts: (Buffer | string)[]) =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)))

function read(bytes: Buffer | string, requested: Partial<RequestedFormat> = {}, isWhole = true) {
  const format: RequestedFormat = { characterSet: 'utf-8', separator: ',', enclosure: '"', ...requested }
  return readBeginning({ bytes: Buffer.from(bytes as string), isWhole }, format)
}

const refusal = (bytes: Buffer | string, requested: Partial<RequestedFormat>): string => {
  try {
    read(bytes, requested)
  } catch (error) {
    return (error as Error).message
  }
  return ''
}

const singleByte = [
  'windows-1252',
  'windows-1250',
  'windows-1251',
  'iso-8859-1',
  'iso-8859-2',
  'iso-8859-15',
] as const
const multiByte = ['shift_jis', 'gbk', 'big5', 'euc-kr'] as const
const utf16 = ['utf-16', 'utf-16le', 'utf-16be'] as const

t.test('the mark of UTF-8 is stripped under UTF-8 and single-byte sets', async (t) => {
  for (const characterSet of ['utf-8', 'auto', ...singleByte] as const) {
    const { content, transcodedFrom, warnings } = read(joined(marks['UTF-8'], 'a@b.co'), { characterSet })
    const set = characterSet === 'auto' ? 'utf-8' : characterSet
    t.match({ ...content, transcodedFrom, warnings }, { character_set: set, start: 3, transcodedFrom: null })
    t.same(warnings, [])
  }
  for (const part of [
    [0xef, 0xbb, 0x41],
    [0xef, 0x41, 0xbf],
    [0x41, 0xbb, 0xbf],
  ])
    t.equal(read(Buffer.from(part)).content.start, 0)
})

t.test('under the other sets such a file is read as UTF-8, with a warning', async (t) => {
  for (const characterSet of [...utf16, ...multiByte]) {
    const { content, transcodedFrom, warnings } = read(joined(marks['UTF-8'], 'é@b.co'), { characterSet })
    t.match({ ...content, transcodedFrom }, { character_set: 'utf-8', start: 3, transcodedFrom: null })
    t.match(warnings, [/^the file begins with a UTF-8 byte order mark, so it is read as UTF-8 and not as /])
  }
})

t.test('a mark of UTF-16 is stripped under its set, and refused with its name under others', async (t) => {
  for (const [name, encode] of [
    ['UTF-16LE', little],
    ['UTF-16BE', big],
  ] as const) {
    const bytes = joined(marks[name], encode('é@b.co'))
    const own = name.toLowerCase() as 'utf-16le' | 'utf-16be'
    for (const characterSet of ['auto', 'utf-16', own] as const) {
      const { content, transcodedFrom, records } = read(bytes, { characterSet })
      const set = characterSet === 'utf-16' ? characterSet : own
      t.match({ ...content, transcodedFrom }, { character_set: set, start: 0, transcodedFrom: own })
      t.equal(records.bytes.toString(), 'é@b.co')
    }
    const other = own === 'utf-16le' ? 'utf-16be' : 'utf-16le'
    for (const characterSet of ['utf-8', other, ...singleByte, ...multiByte] as const)
      t.equal(
        refusal(bytes, { characterSet }),
        `the file begins with a ${name} byte order mark: import it with "character_set": "${name}", or save it as UTF-8`,
      )
  }
})

t.test('a mark of UTF-32 is refused under every set', async (t) => {
  for (const mark of [
    [0xff, 0xfe, 0, 0],
    [0, 0, 0xfe, 0xff],
  ])
    for (const characterSet of ['auto', 'utf-8', ...utf16, ...singleByte, ...multiByte] as const)
      t.equal(
        refusal(Buffer.from([...mark, 0x41, 0, 0, 0]), { characterSet }),
        'the file begins with a UTF-32 byte order mark: save it as UTF-8 and import it again',
      )
})

t.test('UTF-16 without a mark is refused with the name that is meant', async (t) => {
  const message = (names: string) =>
    `the file has no byte order mark, so "UTF-16" doesn't say the order of its bytes: import it with "character_set": ${names}`
  const characterSet = 'utf-16'
  t.equal(refusal(little('Email\nann@example.com\n'), { characterSet }), message('"UTF-16LE"'))
  t.equal(refusal(big('Email\nann@example.com\n'), { characterSet }), message('"UTF-16BE"'))
  t.equal(refusal('Email\nann@example.com\n', { characterSet }), message('"UTF-16LE" or "UTF-16BE"'))
  const named = read(little('Email'), { characterSet: 'utf-16le' })
  t.equal(named.records.bytes.toString(), 'Email', 'a set that says the order needs no mark')
})

t.test('auto detects UTF-8 where nine of ten characters beyond ASCII are valid', async (t) => {
  const detected = (bytes: Buffer | string, isWhole = true) =>
    detectCharacterSet({ bytes: Buffer.from(bytes as string), isWhole })
  t.equal(detected(''), 'utf-8')
  t.equal(detected('plain'), 'utf-8')
  t.equal(detected('Jörg'), 'utf-8')
  t.equal(detected(joined('ö'.repeat(9), Buffer.of(0xf6), 'x')), 'utf-8')
  t.equal(detected(joined('ö'.repeat(8), Buffer.of(0xf6), 'x')), 'windows-1252')
  t.equal(detected(joined('\ufffd'.repeat(9), Buffer.of(0xf6), 'x')), 'utf-8', 'U+FFFD is a character')
  t.equal(detected(Buffer.from('J\u00f6rg', 'latin1')), 'windows-1252')
  t.equal(detected(Buffer.of(0x41, 0xf0, 0x9f, 0x98), false), 'utf-8', 'the file goes on')
  t.equal(detected(Buffer.of(0x41, 0xf0, 0x9f, 0x98), true), 'windows-1252')
  t.equal(detected(Buffer.of(0x41, 0xe2, 0x82), false), 'utf-8')
  t.equal(detected(Buffer.of(0x41, 0xc3), false), 'utf-8')
  t.equal(detected(little('no mark, and NULs')), 'utf-8')
})

t.test('a file with many NUL bytes at its beginning is no text', async (t) => {
  const withNuls = (nuls: number, length: number) => {
    const bytes = Buffer.alloc(length, 'a')
    bytes.fill(0, length - nuls)
    return bytes
  }
  t.equal(refusal(withNuls(99, 99), {}), '', 'fewer than a hundred')
  t.equal(refusal(withNuls(100, 10_000), {}), '', 'one in a hundred')
  for (const [nuls, length] of [
    [100, 9_999],
    [100, 100],
    [101, 10_000],
  ] as const)
    for (const characterSet of ['utf-8', 'auto', ...singleByte, ...multiByte] as const)
      t.equal(
        refusal(withNuls(nuls, length), { characterSet }),
        `${nuls} of the first ${length} bytes are NUL, so the file isn't CSV text; it may be UTF-16, a spreadsheet or an archive: save it as CSV in UTF-8`,
      )
  t.equal(refusal(withNuls(1_000, 65_536 + 1_000), {}), '', 'what comes after 64 KiB is not looked at')
})

t.test('the rule of NULs names the UTF-16 set that is meant, and holds there after decoding', async (t) => {
  const text = 'a@b.co,x\n'.repeat(20)
  for (const characterSet of ['utf-8', 'auto', 'windows-1252', 'gbk'] as const) {
    t.equal(
      refusal(little(text), { characterSet }),
      '180 of the first 360 bytes are NUL, so the file seems to be UTF-16: import it with "character_set": "UTF-16LE", or save it as UTF-8',
    )
    t.match(refusal(big(text), { characterSet }), /"character_set": "UTF-16BE"/)
  }
  t.equal(refusal(little(text), { characterSet: 'utf-16le' }), '')
  t.match(
    refusal(little('\0'.repeat(100) + 'x'), { characterSet: 'utf-16le' }),
    /^100 of the first 101 bytes of its text are NUL, so the file isn't CSV text in UTF-16LE/,
  )
})

t.test('a first line sep= is no record, and sets the separator where the request names none', async (t) => {
  const lines: [line: string, separator: string][] = [
    ['sep=;\n', ';'],
    ['SEP=,\r\n', ','],
    ['Sep=|\r', '|'],
    ['sep=\t\n', '\t'],
    ['sep=\\t\n', '\t'],
    ['"sep=;"\n', ';'],
    ["'sep=;'\n", ';'],
    ['sep=;;; ;\t\n', ';'],
    ['"sep=;";;\n', ';'],
  ]
  for (const [line, separator] of lines) {
    for (const requested of [null, 'auto'] as const) {
      const { content, records, warnings } = read(`${line}a;b,c|d`, { separator: requested })
      t.match(content, { csv_field_separator: separator, start: line.length, skipped_lines: 1 }, line)
      t.equal(records.bytes.toString(), 'a;b,c|d')
      t.same(warnings, [])
    }
  }
  const alone = read('sep=;', { separator: null }).content
  t.match(alone, { csv_field_separator: ';', start: 5, skipped_lines: 1 }, 'a file of that line alone')
  const marked = read(joined(marks['UTF-8'], 'sep=;\na'), { separator: null }).content
  t.match(marked, { csv_field_separator: ';', start: 9, skipped_lines: 1 })
  const wide = read(joined(marks['UTF-16LE'], little('sep=;\nä')), { characterSet: 'auto', separator: null })
  t.match(wide.content, { csv_field_separator: ';', start: 6, skipped_lines: 1 }, 'in the staged bytes')
})

t.test('other lines are records', async (t) => {
  for (const line of [
    'sep=x\n',
    'sep=\n',
    ' sep=;\n',
    'sep=;x\n',
    '\nsep=;\n',
    '"sep=;\n',
    'sep =;\n',
    'xsep=;\n',
  ]) {
    const { content } = read(`${line}a,b`, { separator: null })
    t.match(content, { csv_field_separator: ',', start: 0, skipped_lines: 0 }, line)
  }
})

t.test('where the request names a separator, the line has no say but is no record', async (t) => {
  const other = read('sep=;\na,b', { separator: ',' })
  t.match(other.content, { csv_field_separator: ',', start: 6, skipped_lines: 1 })
  t.same(other.warnings, [
    'the first line sets the separator ";", and csv_field_separator is ",": records are split at ","',
  ])
  const same = read('sep=;\na;b', { separator: ';' })
  t.match(same.content, { csv_field_separator: ';', start: 6, skipped_lines: 1 })
  t.same(same.warnings, [])
})

t.test('auto takes the separator that makes a table', async (t) => {
  for (const separator of [',', ';', '\t', '|'])
    for (const characterSet of ['utf-8', 'windows-1252', 'utf-16le', 'gbk'] as const) {
      const text = ['Email', 'Name'].join(separator) + `\nann@b.co${separator}x\nbob@b.co${separator}y\n`
      const bytes = characterSet === 'utf-16le' ? little(text) : Buffer.from(text)
      const { content } = read(bytes, { separator: 'auto', characterSet })
      t.equal(content.csv_field_separator, separator, `${JSON.stringify(separator)} in ${characterSet}`)
    }
  t.equal(read('Email\nann@b.co', { separator: 'auto' }).content.csv_field_separator, ',')
  t.equal(
    read('a;b', { separator: null }).content.csv_field_separator,
    ',',
    'nothing is detected without auto',
  )
})

t.test('a file is refused when the greater part of its records is invalid', async (t) => {
  const utf8 = { character_set: 'utf-8', isDetected: false } as const
  t.equal(encodingError(0, 0, utf8), null)
  t.equal(encodingError(5, 10, utf8), null)
  const message = (format: Parameters<typeof encodingError>[2]) => encodingError(6, 10, format)?.message
  t.equal(
    message(utf8),
    '6 of the first 10 records are invalid UTF-8: import it with "character_set": "auto" or "windows-1252"',
  )
  t.equal(
    message({ character_set: 'windows-1252', isDetected: false }),
    '6 of the first 10 records are invalid windows-1252: import it with "character_set": "auto"',
  )
  t.equal(
    message({ character_set: 'utf-8', isDetected: true }),
    '6 of the first 10 records are invalid UTF-8: import it with "character_set": "windows-1252"',
  )
  t.match(
    message({ character_set: 'shift_jis' }),
    /invalid Shift_JIS: import it with "character_set": "auto" or/,
  )
  t.match(
    message({ character_set: 'windows-1252', isDetected: true }),
    /invalid windows-1252: save it as UTF-8$/,
  )
})
