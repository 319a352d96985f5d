import t from 'tap'
import { findContainer } from '../../../../shared/containers/container-kind.ts'
import { ZstdFrames } from '../../../../shared/containers/zstd-frames.ts'

/**
 * Frames of zstd, written to RFC 8878: section 3.1.1.1 for the header, 3.1.1.2 for the blocks and 3.1.2 for skipped
 * frames. Their content need not be compressed data.
 */

const magic = Buffer.from('28b52ffd', 'hex')
/** No byte is zero, as zeros behind a frame are padding. */
const filled = (bytes: number): Buffer => Buffer.alloc(bytes, 0x28)

function frame(descriptor: number): Buffer {
  const sizeFlag = descriptor >> 6
  const isSingleSegment = (descriptor & 0b10_0000) !== 0
  const windowBytes = isSingleSegment ? 0 : 1
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 0b11]!
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][sizeFlag]!
  const hasChecksum = (descriptor & 0b100) !== 0
  return Buffer.concat([
    magic,
    Buffer.from([descriptor]),
    filled(windowBytes + dictionaryBytes + sizeBytes),
    block(0, 5),
    block(1, 70_000, 1), // one byte, repeated
    block(2, 300),
    block(0, 0),
    block(2, 3, 3, true),
    filled(hasChecksum ? 4 : 0),
  ])
}

function block(type: number, size: number, stored = size, isLast = false): Buffer {
  const header = Buffer.alloc(3)
  header.writeUIntLE((size << 3) | (type << 1) | Number(isLast), 0, 3)
  return Buffer.concat([header, filled(stored)])
}

function skippedFrame(kind: number, bytes: number): Buffer {
  const header = Buffer.alloc(8)
  header.writeUInt32LE(0x184d2a50 + kind)
  header.writeUInt32LE(bytes, 4)
  return Buffer.concat([header, filled(bytes)])
}

const skipped = [0, 1, 7, 15].flatMap((kind) => [skippedFrame(kind, 0), skippedFrame(kind, 300)])
const descriptors = Array.from({ length: 256 }, (_, i) => i).filter((i) => (i & 0b1000) === 0)
const frames = [...descriptors.map(frame), ...skipped]

/** Whether the bytes end within a magic number that starts there. */
const isWithin = (end: number, start: number): boolean => end > start && end < start + 4

t.test('a file is cut in a magic number where its frames say so, for every header', (t) => {
  const wrong: string[] = []
  for (const each of frames)
    for (const next of [frame(0), skippedFrame(3, 2)]) {
      const bytes = Buffer.concat([each, next])
      for (const step of [1, 2, 3, 97, bytes.length]) {
        const reader = new ZstdFrames()
        for (let at = 0; at < bytes.length; at += step) {
          reader.add(bytes.subarray(at, at + step))
          const end = Math.min(at + step, bytes.length)
          const isCut = isWithin(end, 0) || isWithin(end, each.length)
          if (reader.isCutInMagic !== isCut)
            wrong.push(`${each.toString('hex', 0, 9)} at ${end}, in ${step}s`)
        }
      }
    }
  t.same(wrong.slice(0, 5), [])
  t.end()
})

t.test('zeros behind the last frame are padding', (t) => {
  const reader = new ZstdFrames()
  reader.add(frame(0))
  reader.add(Buffer.alloc(3))
  t.equal(reader.isCutInMagic, false)
  t.end()
})

t.test('a container is told by its first bytes alone', (t) => {
  const kinds: [hex: string, kind: 'gzip' | 'zstd' | 'zip' | null][] = [
    ['1f8b0800', 'gzip'],
    ['28b52ffd', 'zstd'],
    ['502a4d18', 'zstd'],
    ['5f2a4d18', 'zstd'],
    ['504b0304', 'zip'],
    ['504b0506', 'zip'],
    ['504b0708', 'zip'],
    ['504b3030504b0304', 'zip'],
    ['602a4d18', null],
    ['504b0102', null],
    ['504b3030', null],
    ['1f', null],
    ['', null],
    // The same in the second byte, or shifted by half a byte.
    ...['1f8b0800', '28b52ffd', '552a4d18', '504b0304'].flatMap((hex): [string, null][] => [
      [`61${hex}`, null],
      [`6${hex}1`, null],
    ]),
  ]
  for (const [hex, kind] of kinds) t.equal(findContainer(Buffer.from(hex, 'hex')), kind, hex)
  t.end()
})
