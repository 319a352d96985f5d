import t from 'tap'
import { bordersOf, sampleIdentities } from '../../../engine/stages/split/sampling.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { makePlan, utf8Format } from '../../helpers/make-plan.ts'

/** A source of which it is known what was read. */
function memorySource(content: Buffer, maxRead = Infinity) {
  const reads: { from: number; to: number }[] = []
  return {
    size: content.length,
    read: (target: Buffer, position: number) => {
      const read = content.subarray(position, position + maxRead).copy(target)
      reads.push({ from: position, to: position + read })
      return Promise.resolve(read)
    },
    close: () => Promise.resolve(),
    reads,
  }
}

const sample = (source: ReturnType<typeof memorySource>, windows: number, start = 0) =>
  sampleIdentities({
    source,
    start,
    windows,
    identities: new IdentityReader(makePlan(), utf8Format),
    format: utf8Format,
    wantedColumn: 0,
  }).then((identities) => identities.map((identity) => identity.toString()))

const address = (i: number) => `${String(i).padStart(7, '0')}@example.com`

t.test('all identities of a small file are sampled, sorted', async (t) => {
  const names = Array.from({ length: 100 }, (_, i) => address((i * 37) % 100))
  const content = Buffer.from(`skipped${names.map((name) => `${name},x\n`).join('')}no address\n`)
  for (const maxRead of [Infinity, 100])
    t.same(await sample(memorySource(content, maxRead), 4, 7), names.toSorted(), `${maxRead} bytes a read`)
  const exact = Buffer.from(`${'x'.repeat(2 * 16_384 - 21)}\n${address(1)}\n`)
  t.equal(exact.length, 2 * 16_384)
  t.same(await sample(memorySource(exact), 2), [address(1)], 'two windows are the whole file')
})

t.test('windows are spread from the beginning of a large file to its end', async (t) => {
  // A line has 64 bytes.
  const rows = 10_000
  const content = Buffer.from(
    Array.from({ length: rows }, (_, i) => `${address(i)},${'x'.repeat(43)}\n`).join(''),
  )
  t.equal(content.length, rows * 64)
  const source = memorySource(content)
  const windows = 5
  const found = await sample(source, windows)
  const distance = (content.length - 16 * 1_024) / (windows - 1)
  const begins = Array.from({ length: windows }, (_, window) => Math.floor(distance * window))
  t.same(
    source.reads.map(({ from, to }) => [from, to]),
    begins.map((from) => [from, from + 4 * 1_024]),
    'one block each, as it has enough identities',
  )
  const expected = begins.flatMap((from, window) => {
    // A line that a window begins in is skipped, save for the first window. 24 are enough, but a block is read whole.
    const first = window === 0 ? 0 : Math.floor(from / 64) + 1
    const whole = Math.floor((from + 4 * 1_024) / 64)
    return Array.from({ length: whole - first }, (_, i) => address(first + i))
  })
  t.same(found, expected)
})

t.test('a window is read on, block by block, until it has enough identities or ends', async (t) => {
  const few = `${'x'.repeat(1_000)}\n${address(7)},${'y'.repeat(979)}\n`
  t.equal(few.length, 2_001)
  const content = Buffer.from(few.repeat(100))
  const source = memorySource(content)
  const found = await sample(source, 3)
  t.ok(found.every((identity) => identity === address(7)))
  t.equal(found.length, 3 * 8, 'eight or so a window')
  t.equal(source.reads.length, 3 * 4, 'four blocks of 4 KiB are a window')
  t.same(source.reads.slice(0, 4), [
    { from: 0, to: 4_096 },
    { from: 4_096, to: 8_192 },
    { from: 8_192, to: 12_288 },
    { from: 12_288, to: 16_384 },
  ])
})

t.test('a line longer than a block is skipped, and a file that ends early ends its window', async (t) => {
  const content = Buffer.from(`${address(0)}\n${'x'.repeat(9_000)}\n`.repeat(20))
  const found = await sample(memorySource(content), 4)
  t.ok(found.length > 0 && found.every((identity) => identity === address(0)))
  const shorter = { ...memorySource(content), size: content.length + 100_000 }
  t.ok((await sample(shorter, 4)).every((identity) => identity === address(0)))
})

t.test('borders ascend, and an identity that fills several parts is between two of them', (t) => {
  const identities = (text: string) => Array.from(text, (name) => Buffer.from(name))
  const borders = (text: string, ranges: number) =>
    bordersOf(identities(text), ranges).map((border) => border.toString())
  t.same(borders('abcdefghij', 5), ['c', 'e', 'g', 'i'])
  t.same(borders('aammmmmmyz', 5), ['m', 'm\0', 'y'])
  t.same(borders('mmmm', 4), ['m', 'm\0'])
  t.same(borders('ab', 5), ['a', 'a\0', 'b', 'b\0'])
  t.same(borders('a', 1), [])
  t.end()
})
