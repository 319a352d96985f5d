import t from 'tap'
import { recordFlags } from '../../../shared/csv/record-scanner.ts'
import { utf8Format } from '../../helpers/make-plan.ts'
import { feed, makeScanner, scan } from '../../helpers/small-scanner.ts'

t.test('after a too long record that a CR ends, the next one is read, wherever a block ends', (t) => {
  for (let step = 1; step < 48; step += 1)
    t.same(
      scan(`${'x'.repeat(40)}\rb,c\rd`, utf8Format, 0, step).map(({ bytes, line }) => [bytes, line]),
      [
        ['x'.repeat(32), 1],
        ['b,c', 2],
        ['d', 3],
      ],
    )
  t.end()
})

t.test('blanks count as bytes of a record, however many and however they come', (t) => {
  for (let step = 1; step < 48; step += 1) {
    const found = scan(`${' '.repeat(60)}b\n${' '.repeat(31)}c\n${' '.repeat(60)}\nd`, utf8Format, 0, step)
    const kinds = found.map(({ flags, line }) => [flags, line])
    t.same(kinds, [
      [recordFlags.tooLong, 1],
      [0, 2],
      [0, 4],
    ])
    const behind = scan(`${' '.repeat(40)}\r\nb`, utf8Format, 0, step)
    t.same(
      behind.map(({ flags, line }) => [flags, line]),
      [[0, 2]],
    )
  }
  t.end()
})

t.test('a window grows when more than half of it waits', (t) => {
  const { scanner } = makeScanner(utf8Format, 0)
  feed(scanner, 'ab', 2)
  t.equal(scanner.space().length, 2, 'half of four')
  feed(scanner, 'c', 1)
  t.equal(scanner.space().length, 5, 'three of eight')
  t.end()
})

t.test('a record or a blank line of any length takes bounded memory', (t) => {
  const texts = [
    'x'.repeat(1_000),
    'abc,'.repeat(250),
    '"a",'.repeat(250),
    `"${'x'.repeat(1_000)}`,
    '"a"b'.repeat(250),
  ]
  for (const text of [...texts, ' '.repeat(1_000), `"a"${' '.repeat(1_000)}`])
    for (const step of [1, 7, 64]) {
      const { scanner, found } = makeScanner(utf8Format, 0)
      // Asserts the size of the window.
      feed(scanner, text, step)
      feed(scanner, `\nb\n`, step)
      t.equal(found.at(-1)!.bytes, 'b', `${text.slice(0, 10)}, ${step} bytes at a time`)
    }
  t.end()
})

t.test('line breaks in enclosures of a too long record count, wherever a block ends', (t) => {
  for (let step = 1; step < 48; step += 1) {
    const found = scan(`"a\nb","c\r\nd",${'x'.repeat(40)},"e\n"\nb`, utf8Format, 1, step)
    t.same(
      found.map(({ line, lines, longCell }) => [line, lines, longCell]),
      [
        [1, 4, '"c\r\nd"'],
        [5, 1, null],
      ],
    )
  }
  t.end()
})

t.test('a doubled enclosure closes nothing where a block ends in it', (t) => {
  for (let step = 1; step < 60; step += 1)
    t.same(
      scan(`${'x'.repeat(40)},"a""${'b'.repeat(20)}\nc`, utf8Format, 0, step).map(({ flags }) => flags),
      [recordFlags.tooLong | recordFlags.unterminated, 0],
    )
  t.end()
})

t.test('CR, LF and CRLF in an enclosure are a line break each', (t) => {
  for (const [text, lines] of [
    ['"a\r\rb"', 3],
    ['"a\n\nb"', 3],
    ['"\r\n\n"', 3],
    ['"\n\r"', 3],
    ['"\r\n\r"', 3],
    ['"\r\n\r\n"', 3],
    ['"a\r\n"', 2],
  ] as const)
    t.same(
      scan(`${text}\nb`, utf8Format, 0, 64).map(({ line, lines }) => [line, lines]),
      [
        [1, lines],
        [1 + lines, 1],
      ],
    )
  t.end()
})

t.test('lines that were skipped before the first byte count', (t) => {
  for (const skipped of [undefined, 0, 1, 5]) {
    const { scanner, found } = makeScanner(utf8Format, 0, skipped)
    const before = skipped ?? 0
    t.equal(scanner.lines, before)
    feed(scanner, 'a\n\nb\n', 64)
    t.same(
      found.map(({ line }) => line),
      [before + 1, before + 3],
    )
    t.equal(scanner.lines, before + 3)
  }
  t.end()
})
