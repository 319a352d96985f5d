import t from 'tap'
import { readEvents } from '../../../../control-plane/cli/api-client.ts'
import { barLine, Rate } from '../../../../control-plane/cli/progress.ts'
import {
  exampleImport,
  type ImportView,
} from '../../../../control-plane/resources/subscriber-imports/schemas.ts'
import { noCounts } from '../../../../shared/contract/schemas/import.ts'
import { cutTo, printableLines, table, displayWidth, wrapTo } from '../../../../control-plane/cli/terminal.ts'

const plain = (_: unknown, text: string) => text

function view(state: ImportView['state'], done: number, total: number | null): ImportView {
  const stats = { number_of_records: total, records_imported: done, subscribers: noCounts() }
  return { ...exampleImport, id: 12, state, stats }
}

t.test('a progress bar fits its terminal, and leaves out what has no space', (t) => {
  const line = (width: number, shown = view('importing', 450_000, 1_000_000)) =>
    barLine(shown, { title: 'import 12', expectedRows: null, rowsPerSecond: 12_345, width, style: plain })
  for (const width of [20, 30, 40, 59, 79, 119, 200])
    t.ok(displayWidth(line(width)) <= width, `${width} columns`)
  t.match(
    line(119),
    /^import 12 {2}importing {2}█+░+ +45% {4}450,000\/1,000,000 rows {2}12,345 rows\/s {2}45 s left$/,
  )
  t.match(line(79), /importing .*450,000\/1,000,000 rows {2}12,345 rows\/s {2}45 s left$/)
  t.match(line(59), /45% .*12,345\/s {2}45 s left$/)
  t.match(line(30), /45%/)
  t.match(line(79, view('scheduled', 0, null)), /scheduled .* 0% {2}0\/\? rows/)
  t.match(line(79, { ...view('scheduled', 0, null), waiting_for_import_id: 7 }), /waits for import 7$/)
  t.match(line(79, view('finished', 0, 0)), /100%/)
  t.match(
    line(79, {
      ...view('downloading', 0, null),
      download: { attempt: 1, bytes_received: 1_500_000, bytes_expected: 3e6, next_attempt_at: null },
    }),
    /1\.5 of 3\.0 MB$/,
  )
  t.end()
})

t.test('the rate is that of the last seconds, and forgets what was before a pause', (t) => {
  const rate = new Rate()
  t.equal(rate.add(0, 0, true), null)
  t.equal(rate.add(1_000, 500, true), 500)
  for (let s = 2; s <= 30; s += 1) rate.add(s * 1000, 500 + (s - 1) * 1_000, true)
  t.equal(rate.add(31_000, 30_500, true), 1_000)
  t.equal(rate.add(60_000, 30_500, false), null)
  t.equal(rate.add(61_000, 32_500, true), 2_000)
  t.end()
})

t.test('tables are as wide as they must be, and cut where the terminal ends', (t) => {
  const rows = [
    [1, 'Ann', 'x'.repeat(50)],
    [20, '邮箱', null],
  ]
  const wide = table(['id', 'name', 'note'], rows, { width: Infinity, style: plain })
  t.equal(wide, `id  name  note\n 1  Ann   ${'x'.repeat(50)}\n20  邮箱\n`)
  for (const line of table(['id', 'name', 'note'], rows, { width: 30, style: plain }).split('\n'))
    t.ok(displayWidth(line) <= 30)
  t.equal(table(['id'], [], { width: 80, style: plain }), 'id\n')
  t.notMatch(
    table(['a'], [['x\u001b[31m\ny']], { width: 80, style: plain }),
    /\u001b/,
    'nothing steers the terminal',
  )
  t.equal(cutTo('邮箱邮箱', 5), '邮箱…')
  t.end()
})

t.test('events come whole, however they are cut on their way', async (t) => {
  const text =
    ': hello\r\n\r\nevent: import\nid: 1\ndata: {"a":"ö"}\n\ndata:x\ndata: y\n\n: 15 s\n\ndata: lost'
  const bytes = Buffer.from(text)
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const pieces = (async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    })()
    t.same(await Array.fromAsync(readEvents(pieces)), ['{"a":"ö"}', 'x\ny'], `pieces of ${size}`)
  }
  // CR, LF and CRLF each end a line; two pieces may share a CRLF, which ends one line and not two.
  for (const lineEnd of ['\r', '\n', '\r\n'])
    for (const size of [1, 2, 3, 100]) {
      const lines = Buffer.from(['data: a', 'data: b', '', 'data: c', '', ': end'].join(lineEnd))
      const pieces = (async function* () {
        for (let at = 0; at < lines.length; at += size) yield lines.subarray(at, at + size)
      })()
      const name = `${JSON.stringify(lineEnd)}, pieces of ${size}`
      t.same(await Array.fromAsync(readEvents(pieces)), ['a\nb', 'c'], name)
    }
})

t.test('a text from elsewhere says nothing to the terminal, wherever its pieces end', async (t) => {
  const text = '\u001b]52;c;eA==\u0007\tn\u00f6\u009b31m\r\nx\u007f\u0000\n'
  const shown = '\\x1b]52;c;eA==\\x07\\tn\u00f6\\x9b31m\\x0d\nx\\x7f\\x00\n'
  const printed = async (bytes: Buffer, charset: string, width = Infinity) => {
    const pieces = Array.from(bytes, (byte) => Buffer.from([byte]))
    return (
      await Array.fromAsync(
        printableLines(
          (async function* () {
            yield* pieces
          })(),
          { charset, width },
        ),
      )
    ).join('')
  }
  t.equal(await printed(Buffer.from(text), 'utf-8'), shown)
  t.equal(await printed(Buffer.from(text, 'latin1'), 'iso-8859-1'), shown)
  t.equal(
    await printed(
      Buffer.from('short\n\u90ae\u7bb1\u90ae\u7bb1\u90ae\nJo\u0308rg@example.com\n\nend'),
      'utf-8',
      9,
    ),
    'short\n\u90ae\u7bb1\u90ae\u7bb1\u2026\nJo\u0308rg@exa\u2026\n\nend',
    'lines are cut at the width of the terminal',
  )
})

t.test('sentences and commands are broken where the terminal ends', (t) => {
  const text = 'column 3 has no field and is ignored'
  t.equal(wrapTo(text, 80), text)
  t.equal(wrapTo(text, Infinity), text)
  t.equal(wrapTo(text, 20), 'column 3 has no\nfield and is ignored')
  t.equal(wrapTo('  a https://example.com/a', 12), '  a\n  https://e\u2026')
  t.equal(
    wrapTo("  rollcall field create --name 'My \u90ae\u7bb1 field' --type text", 32, { isCommand: true }),
    "  rollcall field create --name \\\n    'My \u90ae\u7bb1 field' --type \\\n    text",
  )
  t.end()
})
