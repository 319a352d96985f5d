import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import {
  filledRanges,
  PartitionOutput,
  RangeWriter,
  successor,
  type Range,
} from '../../../../../engine/stages/split/range-writer.ts'

/** Keeps what is appended, as a file would. */
function memoryFile() {
  const written: Buffer[] = []
  const appends: number[] = []
  return {
    append: (buffers: Uint8Array[]) => {
      appends.push(buffers.length)
      // A copy: the output uses written buffers again.
      for (const buffer of buffers) written.push(Buffer.from(buffer))
      return Promise.resolve()
    },
    close: () => Promise.resolve(),
    bytes: () => Buffer.concat(written),
    appends,
  }
}

interface Item {
  identity: string
  text: string
}

/** A record as docs of the partition file say. */
function staged({ identity, text }: Item, number: number): Buffer {
  const header = Buffer.alloc(16)
  header.writeUInt32LE(number, 0)
  header.writeUInt32LE(number * 3, 4)
  header.writeUInt32LE(text.length + 5 * 2 ** 24, 8)
  header.writeUInt32LE(identity.length, 12)
  return Buffer.concat([header, Buffer.from(identity), Buffer.from(text)])
}

const recordOf = ({ identity, text }: Item, number: number) => ({
  number,
  line: number * 3,
  flags: 5,
  identity: Buffer.from(`${identity}behind`),
  identityLength: identity.length,
  bytes: Buffer.from(`<${text}>`),
  start: 1,
  end: 1 + text.length,
})

const bytesOf = (file: Buffer, { pieces }: Range): Buffer => {
  const parts: Buffer[] = []
  for (let i = 0; i < pieces.length; i += 2) parts.push(file.subarray(pieces[i], pieces[i]! + pieces[i + 1]!))
  return Buffer.concat(parts)
}

const name = fc
  .array(fc.constantFrom('a', 'b', 'abcdef', '\0'), { maxLength: 3 })
  .map((parts) => parts.join(''))

t.test('each record is in the range of its identity, in file order, whatever the buffers', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        items: fc.array(fc.record({ identity: name, text: fc.constantFrom('', 'x', 'y'.repeat(50)) }), {
          maxLength: 40,
        }),
        borders: fc.uniqueArray(name, { maxLength: 5 }),
        bufferSize: fc.integer({ min: 1, max: 200 }),
        flushEvery: fc.integer({ min: 1, max: 20 }),
      }),
      async ({ items, borders: names, bufferSize, flushEvery }) => {
        const file = memoryFile()
        const output = new PartitionOutput(file)
        const borders = names.map((border) => Buffer.from(border)).toSorted((a, b) => a.compare(b))
        const within = { from: Buffer.from(''), to: Buffer.from('zz') }
        const writer = new RangeWriter({ output, bufferSize, borders, within })
        for (const [i, item] of items.entries()) {
          writer.add(recordOf(item, i + 1))
          if (i % flushEvery === 0) await output.flush()
        }
        const ranges = writer.finish()
        await output.end()
        await output.close()
        const bytes = file.bytes()
        const all = [within.from, ...borders, within.to]
        assert.equal(ranges.length, borders.length + 1)
        for (const [i, range] of ranges.entries()) {
          const [from, to] = [all[i]!, all[i + 1]!]
          assert.ok(range.from!.equals(from) && range.to!.equals(to))
          const isPoint = to.equals(Buffer.concat([from, Buffer.of(0)]))
          assert.equal(range.kind, isPoint ? 'single_identity' : 'sorted')
          const expected = items
            .map((item, at) => ({ item, number: at + 1, identity: Buffer.from(item.identity) }))
            .filter(
              ({ identity }) =>
                (i === 0 || identity.compare(from) >= 0) &&
                (i === borders.length || identity.compare(to) < 0),
            )
          const content = Buffer.concat(expected.map(({ item, number }) => staged(item, number)))
          assert.ok(bytesOf(bytes, range).equals(content))
          assert.equal(range.length, content.length)
          assert.equal(range.crc32, crc32(content))
          assert.equal(range.records, expected.length)
          assert.ok(range.pieces.every((value, at) => at % 2 === 0 || value > 0))
        }
      },
    ),
    { numRuns: 400 },
  )
  t.pass()
})

t.test('records share a buffer as long as it has space, and one write takes all that is full', async (t) => {
  const file = memoryFile()
  const output = new PartitionOutput(file)
  const writer = new RangeWriter({ output, bufferSize: 40, borders: [], within: { from: null, to: null } })
  const lengths = (pieces: number[]) => pieces.filter((_, i) => i % 2 === 1)
  // A record has 16 bytes and its own: 20, 20 and 20 bytes, then 41, which is more than a buffer, and 16.
  for (const [i, text] of ['aaaa', 'bbbb', 'cccc', 'd'.repeat(25), ''].entries())
    writer.add(recordOf({ identity: '', text }, i))
  const [range] = writer.finish()
  t.same(lengths(range!.pieces), [40, 20, 41, 16])
  t.same([range!.from, range!.to, range!.kind], [null, null, 'sorted'])
  await output.end()
  t.same(file.appends, [4])
  await output.flush()
  await output.end()
  t.same(file.appends, [4], 'nothing is nothing to write')
  await output.close()
})

t.test('written buffers are used again, at one size', async (t) => {
  const file = memoryFile()
  const output = new PartitionOutput(file)
  const buffer = output.getBuffer(8)
  t.equal(buffer.length, 8)
  t.equal(output.enqueue(buffer.subarray(0, 3)), 0)
  t.equal(output.enqueue(Buffer.allocUnsafeSlow(9)), 3)
  await output.end()
  const again = output.getBuffer(8)
  t.equal(again.buffer, buffer.buffer)
  t.equal(again.length, 8)
  t.not(output.getBuffer(8).buffer, buffer.buffer, 'once')
  output.enqueue(again)
  await output.end()
  t.equal(output.getBuffer(10).length, 10, 'a buffer of another size is new')
  await output.close()
})

t.test('no more than 64 buffers wait for use, and the memory of others is free at once', async (t) => {
  const output = new PartitionOutput(memoryFile())
  const buffers = Array.from({ length: 66 }, () => output.getBuffer(8))
  const long = Buffer.allocUnsafeSlow(9)
  for (const buffer of [...buffers, long]) output.enqueue(buffer)
  const memory = [...buffers, long].map(({ buffer }) => buffer)
  await output.end()
  t.same(
    memory.map((buffer) => buffer.byteLength),
    [...Array.from({ length: 64 }, () => 8), 0, 0, 0],
  )
  await output.close()
  t.ok(memory.every((buffer) => buffer.byteLength === 0))
})

t.test('the error of a write is thrown by the next flush, or by the end', async (t) => {
  const failing = {
    append: () => Promise.reject(new Error('the disk is full')),
    close: () => Promise.resolve(),
  }
  const output = new PartitionOutput(failing)
  output.enqueue(Buffer.from('x'))
  await output.flush()
  // Meanwhile nothing is told, and the process goes on.
  await new Promise((resolve) => setImmediate(resolve))
  await t.rejects(output.flush(), { message: 'the disk is full' })
  const other = new PartitionOutput(failing)
  other.enqueue(Buffer.from('x'))
  await t.rejects(other.end(), { message: 'the disk is full' })
  await other.close()
})

t.test('ranges with records lie side by side, up to the outer borders', (t) => {
  const range = (from: string | null, to: string | null, records: number): Range => ({
    kind: 'sorted',
    from: from === null ? null : Buffer.from(from),
    to: to === null ? null : Buffer.from(to),
    pieces: [],
    length: 0,
    crc32: 0,
    records,
  })
  const filled = (ranges: Range[]) =>
    filledRanges(ranges).map(({ from, to }) => [from?.toString() ?? null, to?.toString() ?? null])
  t.same(filled([range(null, 'b', 1), range('b', 'c', 0), range('c', null, 2)]), [
    [null, 'c'],
    ['c', null],
  ])
  t.same(filled([range(null, 'b', 0), range('b', 'c', 1), range('c', null, 0)]), [[null, null]])
  t.same(filled([range('a', 'b', 0), range('b', 'c', 1), range('c', 'd', 1), range('d', 'e', 0)]), [
    ['a', 'c'],
    ['c', 'e'],
  ])
  t.same(filled([range('a', 'b', 0)]), [])
  t.same(filled([]), [])
  t.ok(successor(Buffer.from('a')).equals(Buffer.from('a\0')))
  t.end()
})
