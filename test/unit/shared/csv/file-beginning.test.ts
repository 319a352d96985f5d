import t from 'tap'
import type { ImportError } from '../../../../shared/contract/errors.ts'
import type { CharacterSet, ImportOptions } from '../../../../shared/contract/schemas/import.ts'
import {
  detectCharacterSet,
  encodingError,
  guessUtf16,
  readBeginning,
  requestedFormat,
  type RequestedFormat,
} from '../../../../shared/csv/file-beginning.ts'

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

function refused(bytes: Buffer | string, requested: Partial<RequestedFormat> = {}): ImportError | null {
  try {
    read(bytes, requested)
    return null
  } catch (error) {
    return error as ImportError
  }
}

const refusal = (bytes: Buffer | string, requested: Partial<RequestedFormat>): string =>
  refused(bytes, requested)?.message ?? ''

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
    const { stored, transcodedFrom, warnings } = read(joined(marks['UTF-8'], 'a@b.co'), { characterSet })
    const set = characterSet === 'auto' ? 'utf-8' : characterSet
    t.match({ ...stored, transcodedFrom, warnings }, { character_set: set, start: 3, transcodedFrom: null })
    t.same(warnings, [])
  }
  for (const part of [
    [0xef, 0xbb, 0x41],
    [0xef, 0x41, 0xbf],
    [0x41, 0xbb, 0xbf],
  ])
    t.equal(read(Buffer.from(part)).stored.start, 0)
})

t.test('under the other sets such a file is read as UTF-8, with a warning', async (t) => {
  for (const characterSet of [...utf16, ...multiByte]) {
    const { stored, transcodedFrom, warnings } = read(joined(marks['UTF-8'], 'é@b.co'), { characterSet })
    t.match({ ...stored, transcodedFrom }, { character_set: 'utf-8', start: 3, transcodedFrom: null })
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
      const { stored, transcodedFrom, records, warnings } = read(bytes, { characterSet })
      t.same(warnings, [])
      const set = characterSet === 'utf-16' ? characterSet : own
      t.match({ ...stored, transcodedFrom }, { character_set: set, start: 0, transcodedFrom: own })
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

t.test('UTF-16 is guessed where NULs are at even or at odd offsets, or four times as often', async (t) => {
  /** Text without other NULs than so many at even and at odd offsets. */
  const bytes = (even: number, odd: number, length = 200) => {
    const found = Buffer.alloc(length, 'a')
    for (let i = 0; i < even; i += 1) found[2 * i] = 0
    for (let i = 0; i < odd; i += 1) found[2 * i + 1] = 0
    return found
  }
  const cases: [what: string, guess: ReturnType<typeof guessUtf16>, bytes: Buffer][] = [
    ['no byte', null, Buffer.alloc(0)],
    ['three NULs', null, bytes(0, 3)],
    ['four at odd offsets', 'utf-16le', bytes(0, 4)],
    ['four at even offsets', 'utf-16be', bytes(4, 0)],
    ['less than a hundredth', null, bytes(0, 99, 10_000)],
    ['a hundredth', 'utf-16le', bytes(0, 100, 10_000)],
    ['a hundredth at even offsets', 'utf-16be', bytes(100, 0, 10_000)],
    ['four times as many at odd offsets', null, bytes(5, 20)],
    ['more than four times as many', 'utf-16le', bytes(5, 21)],
    ['four times as many at even offsets', null, bytes(20, 5)],
    ['more than four times as many at even offsets', 'utf-16be', bytes(21, 5)],
    ['as many at both', null, bytes(20, 20)],
    ['NULs after 64 KiB', null, Buffer.concat([Buffer.alloc(65_536, 'a'), little('a'.repeat(9_000))])],
  ]
  for (const [what, guess, content] of cases) t.equal(guessUtf16(content), guess, what)
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
  for (const [name, mark] of Object.entries(marks))
    t.equal(detected(joined(mark, Buffer.of(0xf6, 0xf6))), name.toLowerCase(), 'a mark decides')
  t.equal(detected(Buffer.of(0xff, 0xfe, 0, 0, 0x41, 0, 0, 0)), 'windows-1252', 'UTF-32 is never detected')
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
  const decoded = (text: string) => refusal(little(text), { characterSet: 'utf-16le' })
  const rest =
    "so the file isn't CSV text in UTF-16LE; it may be a spreadsheet or an archive: save it as CSV in UTF-8"
  t.equal(decoded('\0'.repeat(100) + 'x'), `100 of the first 101 bytes of its text are NUL, ${rest}`)
  t.equal(
    decoded('a\0'.repeat(100)),
    `100 of the first 200 bytes of its text are NUL, ${rest}`,
    'no other set is guessed',
  )
})

t.test('a refusal says whether other settings could make a table of the file', async (t) => {
  const nuls = '\0'.repeat(100)
  const cases: [what: string, isNoTable: boolean, bytes: Buffer | string, set: CharacterSet][] = [
    ['a PDF', true, '%PDF-1.7\n', 'utf-8'],
    ['the mark of UTF-32', true, Buffer.of(0xff, 0xfe, 0, 0), 'utf-8'],
    ['bytes that are NUL', true, nuls, 'utf-8'],
    ['NULs of a text in UTF-16', false, little(nuls), 'utf-16le'],
    ['text that seems to be UTF-16', false, little('a@b.co\n'.repeat(20)), 'utf-8'],
    ['the mark of another set', false, joined(marks['UTF-16BE'], big('a')), 'utf-8'],
    ['UTF-16 without a mark', false, little('a'), 'utf-16'],
  ]
  for (const [what, isNoTable, bytes, characterSet] of cases)
    t.match(refused(bytes, { characterSet }), { code: 'content_refused', isNoTable }, what)
  t.match(refusal('%PDF-1.7\n', {}), /^the file is a PDF/)
})

t.test('the format of a request is read as it is, but a separator by default is none', async (t) => {
  const file_format = {
    ...{ character_set: 'gbk', csv_field_separator: ';', csv_field_enclosure: "'" },
    csv_has_headers: false,
    csv_field_escape: null,
    csv_skip_lines: 0,
  } as const
  const format = { characterSet: 'gbk', separator: ';', enclosure: "'", escape: null, skipLines: 0 }
  t.same(requestedFormat({ file_format } as ImportOptions), format)
  t.same(requestedFormat({ file_format, default_separator: true } as ImportOptions), {
    ...format,
    separator: null,
  })
})

t.test('a file is refused when the greater part of its records is invalid', async (t) => {
  const utf8 = { character_set: 'utf-8', isDetected: false } as const
  t.equal(encodingError(0, 0, utf8), null)
  t.equal(encodingError(5, 10, utf8), null)
  t.equal(encodingError(6, 10, utf8)?.code, 'content_refused')
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

const utf16le = (text: string) => Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from(text, 'utf16le')])

function readFormat(bytes: Buffer | string, requested: Partial<RequestedFormat> = {}, isWhole = true) {
  const format: RequestedFormat = { characterSet: 'utf-8', separator: ',', enclosure: '"', ...requested }
  return readBeginning({ bytes: Buffer.from(bytes as string), isWhole }, format)
}

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
      const { stored, records, warnings } = readFormat(`${line}a;b,c|d`, { separator: requested })
      t.match(stored, { csv_field_separator: separator, start: line.length, skipped_lines: 1 }, line)
      t.equal(records.bytes.toString(), 'a;b,c|d')
      t.same(warnings, [])
    }
  }
  const alone = readFormat('sep=;', { separator: null }).stored
  t.match(alone, { csv_field_separator: ';', start: 5, skipped_lines: 1 }, 'a file of that line alone')
  const marked = readFormat('\ufeffsep=;\na', { separator: null }).stored
  t.match(marked, { csv_field_separator: ';', start: 9, skipped_lines: 1 })
  const wide = readFormat(utf16le('sep=;\nä'), { characterSet: 'auto', separator: null })
  t.match(wide.stored, { csv_field_separator: ';', start: 6, skipped_lines: 1 }, 'in the staged bytes')
})

t.test('other lines are records', async (t) => {
  for (const line of [
    ...['sep=x\n', 'sep=\n', ' sep=;\n', 'sep=;x\n', '\nsep=;\n', '"sep=;\n', 'sep =;\n', 'xsep=;\n'],
  ]) {
    const { stored } = readFormat(`${line}a,b`, { separator: null })
    t.match(stored, { csv_field_separator: ',', start: 0, skipped_lines: 0 }, line)
  }
})

t.test('the line is one where its end is known, and its 4,096 bytes have it', async (t) => {
  const start = (line: string, isWhole: boolean) =>
    readFormat(line, { separator: null }, isWhole).stored.start
  for (const [name, line, whole, beginning] of [
    ['with a line end', 'sep=;\na;b\n', 6, 6],
    ['with CR', 'sep=;\ra;b\n', 6, 6],
    ['without a line end', 'sep=;', 5, 0],
    ['4,095 bytes and a line end', `sep=;${' '.repeat(4_090)}\na`, 4_096, 4_096],
    ['4,096 bytes and the end of the file', `sep=;${' '.repeat(4_091)}`, 4_096, 0],
    ['4,096 bytes and a line end', `sep=;${' '.repeat(4_091)}\na`, 0, 0],
  ] as const) {
    t.equal(start(line, true), whole, `${name}, of a whole file`)
    t.equal(start(line, false), beginning, `${name}, of a longer file`)
  }
})

t.test('where the request names a separator, the line has no say but is no record', async (t) => {
  const other = readFormat('sep=;\na,b', { separator: ',' })
  t.match(other.stored, { csv_field_separator: ',', start: 6, skipped_lines: 1 })
  t.same(other.warnings, [
    'the first line sets the separator ";", and csv_field_separator is ",": records are split at ","',
  ])
  for (const [line, separator, names] of [
    ['sep=\t\n', '|', 'tab, and csv_field_separator is "|": records are split at "|"'],
    ['sep=|\n', '\t', '"|", and csv_field_separator is tab: records are split at tab'],
    ['sep=,\n', ';', '",", and csv_field_separator is ";": records are split at ";"'],
  ] as const)
    t.same(readFormat(line, { separator }).warnings, [`the first line sets the separator ${names}`])
  const same = readFormat('sep=;\na;b', { separator: ';' })
  t.match(same.stored, { csv_field_separator: ';', start: 6, skipped_lines: 1 })
  t.same(same.warnings, [])
})

t.test('auto takes the separator that makes a table', async (t) => {
  for (const separator of [',', ';', '\t', '|'])
    for (const characterSet of ['utf-8', 'windows-1252', 'utf-16le', 'gbk'] as const) {
      const text = ['Email', 'Name'].join(separator) + `\nann@b.co${separator}x\nbob@b.co${separator}y\n`
      const bytes = characterSet === 'utf-16le' ? utf16le(text) : Buffer.from(text)
      const { stored } = readFormat(bytes, { separator: 'auto', characterSet })
      t.equal(stored.csv_field_separator, separator, `${JSON.stringify(separator)} in ${characterSet}`)
    }
  t.equal(readFormat('Email\nann@b.co', { separator: 'auto' }).stored.csv_field_separator, ',')
  t.equal(
    readFormat('a;b', { separator: null }).stored.csv_field_separator,
    ',',
    'nothing is detected without auto',
  )
})

t.test('auto reads the last record of a whole file, and not one that a cut file may end in', async (t) => {
  const detected = (text: string, isWhole: boolean) =>
    readFormat(text, { separator: 'auto' }, isWhole).stored.csv_field_separator
  t.equal(detected('a,b\nann@b.co;x', true), ';')
  t.equal(detected('a,b\nann@b.co;x', false), ',')
  const long = 'ann@b.co;x\n'.repeat(30_000)
  for (const isWhole of [true, false]) t.equal(detected(long, isWhole), ';')
})

t.test('auto reads cells with the enclosure of the request', async (t) => {
  const text = "'x,y';1\n'z,y';2\n"
  const detected = (enclosure: RequestedFormat['enclosure']) =>
    readFormat(text, { separator: 'auto', enclosure }).stored.csv_field_separator
  t.equal(detected("'"), ';')
  t.equal(detected('"'), ',', 'both separators make two cells, and a comma wins a tie')
})
