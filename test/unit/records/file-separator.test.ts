import t from 'tap'
import { readBeginning, type RequestedFormat } from '../../../shared/csv/file-beginning.ts'

const utf16le = (text: string) => Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from(text, 'utf16le')])

function read(bytes: Buffer | string, requested: Partial<RequestedFormat> = {}, isWhole = true) {
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
      const { stored, records, warnings } = read(`${line}a;b,c|d`, { separator: requested })
      t.match(stored, { csv_field_separator: separator, start: line.length, skipped_lines: 1 }, line)
      t.equal(records.bytes.toString(), 'a;b,c|d')
      t.same(warnings, [])
    }
  }
  const alone = read('sep=;', { separator: null }).stored
  t.match(alone, { csv_field_separator: ';', start: 5, skipped_lines: 1 }, 'a file of that line alone')
  const marked = read('\ufeffsep=;\na', { separator: null }).stored
  t.match(marked, { csv_field_separator: ';', start: 9, skipped_lines: 1 })
  const wide = read(utf16le('sep=;\nä'), { characterSet: 'auto', separator: null })
  t.match(wide.stored, { csv_field_separator: ';', start: 6, skipped_lines: 1 }, 'in the staged bytes')
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
    const { stored } = read(`${line}a,b`, { separator: null })
    t.match(stored, { csv_field_separator: ',', start: 0, skipped_lines: 0 }, line)
  }
})

t.test('the line is one where its end is known, and its 4,096 bytes have it', async (t) => {
  const start = (line: string, isWhole: boolean) => read(line, { separator: null }, isWhole).stored.start
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
  const other = read('sep=;\na,b', { separator: ',' })
  t.match(other.stored, { csv_field_separator: ',', start: 6, skipped_lines: 1 })
  t.same(other.warnings, [
    'the first line sets the separator ";", and csv_field_separator is ",": records are split at ","',
  ])
  for (const [line, separator, names] of [
    ['sep=\t\n', '|', 'tab, and csv_field_separator is "|": records are split at "|"'],
    ['sep=|\n', '\t', '"|", and csv_field_separator is tab: records are split at tab'],
    ['sep=,\n', ';', '",", and csv_field_separator is ";": records are split at ";"'],
  ] as const)
    t.same(read(line, { separator }).warnings, [`the first line sets the separator ${names}`])
  const same = read('sep=;\na;b', { separator: ';' })
  t.match(same.stored, { csv_field_separator: ';', start: 6, skipped_lines: 1 })
  t.same(same.warnings, [])
})

t.test('auto takes the separator that makes a table', async (t) => {
  for (const separator of [',', ';', '\t', '|'])
    for (const characterSet of ['utf-8', 'windows-1252', 'utf-16le', 'gbk'] as const) {
      const text = ['Email', 'Name'].join(separator) + `\nann@b.co${separator}x\nbob@b.co${separator}y\n`
      const bytes = characterSet === 'utf-16le' ? utf16le(text) : Buffer.from(text)
      const { stored } = read(bytes, { separator: 'auto', characterSet })
      t.equal(stored.csv_field_separator, separator, `${JSON.stringify(separator)} in ${characterSet}`)
    }
  t.equal(read('Email\nann@b.co', { separator: 'auto' }).stored.csv_field_separator, ',')
  t.equal(
    read('a;b', { separator: null }).stored.csv_field_separator,
    ',',
    'nothing is detected without auto',
  )
})

t.test('auto reads the last record of a whole file, and not one that a cut file may end in', async (t) => {
  const detected = (text: string, isWhole: boolean) =>
    read(text, { separator: 'auto' }, isWhole).stored.csv_field_separator
  t.equal(detected('a,b\nann@b.co;x', true), ';')
  t.equal(detected('a,b\nann@b.co;x', false), ',')
  const long = 'ann@b.co;x\n'.repeat(30_000)
  for (const isWhole of [true, false]) t.equal(detected(long, isWhole), ';')
})

t.test('auto reads cells with the enclosure of the request', async (t) => {
  const text = "'x,y';1\n'z,y';2\n"
  const detected = (enclosure: RequestedFormat['enclosure']) =>
    read(text, { separator: 'auto', enclosure }).stored.csv_field_separator
  t.equal(detected("'"), ';')
  t.equal(detected('"'), ',', 'both separators make two cells, and a comma wins a tie')
})
