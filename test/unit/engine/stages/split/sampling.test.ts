import t from 'tap'
import { chooseBorders, sampleIdentities } from '../../../../../engine/stages/split/sampling.ts'
import { IdentityReader } from '../../../../../shared/csv/identity-reader.ts'
import { makePlan, utf8Format } from '../../../../helpers/make-plan.ts'

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

const sample = (source: ReturnType<typeof memorySource>, samples: number, start = 0) =>
  sampleIdentities({
    source,
    start,
    samples,
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
  // Two samples are the whole file, which is read at once.
  const exact = Array.from({ length: 1_024 }, (_, i) => `${address(i)},${'x'.repeat(11)}\n`).join('')
  t.equal(exact.length, 2 * 16_384)
  const source = memorySource(Buffer.from(exact))
  t.equal((await sample(source, 2)).length, 1_024)
  t.equal(source.reads.length, 1)
})

t.test('samples are spread from the beginning of a large file to its end', async (t) => {
  // A line has 64 bytes.
  const rows = 10_000
  const content = Buffer.from(
    Array.from({ length: rows }, (_, i) => `${address(i)},${'x'.repeat(43)}\n`).join(''),
  )
  t.equal(content.length, rows * 64)
  const source = memorySource(content)
  const samples = 5
  const start = 640
  const found = await sample(source, samples, start)
  const distance = (content.length - start - 16 * 1_024) / (samples - 1)
  const begins = Array.from({ length: samples }, (_, number) => start + Math.floor(distance * number))
  t.same(
    source.reads.map(({ from, to }) => [from, to]),
    begins.map((from) => [from, from + 4 * 1_024]),
    'one block each, as it has enough identities',
  )
  const expected = begins.flatMap((from, window) => {
    // A line that a window begins in is skipped, save for the first window. 24 are enough, but a block is read whole.
    const first = window === 0 ? start / 64 : Math.floor(from / 64) + 1
    const whole = Math.floor((from + 4 * 1_024) / 64)
    return Array.from({ length: whole - first }, (_, i) => address(first + i))
  })
  t.same(found, expected)
})

/** Windows are read side by side. */
const ofFirstWindow = ({ reads }: ReturnType<typeof memorySource>) =>
  reads.filter(({ from }) => from < 16 * 1_024)

t.test('a window is read on, block by block, until it has enough identities or ends', async (t) => {
  const few = `${'x'.repeat(1_000)}\n${address(7)},${'y'.repeat(979)}\n`
  t.equal(few.length, 2_001)
  const content = Buffer.from(few.repeat(100))
  const source = memorySource(content)
  const found = await sample(source, 3)
  t.ok(found.every((identity) => identity === address(7)))
  t.equal(found.length, 3 * 8, 'eight or so a window')
  t.equal(source.reads.length, 3 * 4, 'four blocks of 4 KiB are a window')
  t.same(ofFirstWindow(source), [
    { from: 0, to: 4_096 },
    { from: 4_096, to: 8_192 },
    { from: 8_192, to: 12_288 },
    { from: 12_288, to: 16_384 },
  ])
})

t.test('24 identities are enough for a window, and it ends after 16 KiB however it is read', async (t) => {
  // The first block has 24 lines and the beginning of one more.
  const enough = memorySource(Buffer.from(`${address(1)},${'x'.repeat(149)}\n`.repeat(1_000)))
  t.equal(enough.size, 170_000)
  await sample(enough, 3)
  t.equal(enough.reads[1]!.from, Math.floor((170_000 - 16_384) / 2), 'the second window')
  const short = memorySource(Buffer.from(`${address(1)},${'x'.repeat(979)}\n`.repeat(200)), 3_000)
  await sample(short, 3)
  t.same(
    ofFirstWindow(short).map(({ to }) => to),
    [3_000, 6_000, 9_000, 12_000, 15_000, 16_384],
  )
})

t.test('what is sampled are first cells of whole lines, wherever samples and pieces begin', async (t) => {
  // A cell further back would be a valid identity, too, and so would be one with bytes of another in it.
  const cells = `,${'x'.repeat(60)}@b.co`.repeat(140)
  const long = memorySource(Buffer.from(`${address(0)}${cells}\n`.repeat(100)))
  const found = await sample(long, 30)
  t.ok(found.length > 0 && found.every((identity) => identity === address(0)))
  const names = Array.from({ length: 2_000 }, (_, i) => `${String(i).padStart(200, '0')}@example.com`)
  const content = Buffer.from(names.map((name) => `${name}\n${'!'.repeat(500)}\n`).join(''))
  const known = new Set(names)
  const sampled = await sample(memorySource(content), 64)
  t.ok(sampled.length > 1_000 && sampled.every((identity) => known.has(identity)))
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
    chooseBorders(identities(text), ranges).map((border) => border.toString())
  t.same(borders('abcdefghij', 5), ['c', 'e', 'g', 'i'])
  t.same(borders('aammmmmmyz', 5), ['m', 'm\0', 'y'])
  t.same(borders('mmmm', 4), ['m', 'm\0'])
  t.same(borders('ab', 5), ['a', 'a\0', 'b', 'b\0'])
  t.same(borders('a', 1), [])
  t.same(borders('abmmmmmmmm', 10), ['b', 'm', 'm\0'])
  t.end()
})
