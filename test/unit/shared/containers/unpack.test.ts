import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { deflateRawSync, gzipSync, zstdCompressSync } from 'node:zlib'
import t from 'tap'
import { unpackSample } from '../../../../control-plane/resources/import-inspection/unpack-sample.ts'
import { decompress } from '../../../../shared/containers/decompress.ts'
import { unpacked, uploadBound, type UnpackBound } from '../../../../shared/containers/unpack.ts'
import { ImportError } from '../../../../shared/contract/errors.ts'
import { makeZip } from '../../../helpers/make-zip.ts'

const table = 'a,b\n1,2\n'
const more = '3,4\n'
const zeros = Buffer.alloc(700)
const skippedFrame = Buffer.concat([Buffer.from('552a4d1804000000', 'hex'), Buffer.from('abcd')])

const fileOf = (bytes: Buffer) => ({
  size: bytes.length,
  read: (target: Uint8Array, position: number) => Promise.resolve(bytes.copy(target, 0, position)),
})

async function* inPieces(bytes: Buffer, length: number): AsyncGenerator<Buffer> {
  const pieces: AsyncIterable<Buffer> = Readable.from(
    Array.from({ length: Math.ceil(bytes.length / length) }, (_, i) =>
      bytes.subarray(i * length, (i + 1) * length),
    ),
  )
  yield* pieces
}

interface Unpacking {
  pieceLength?: number
  bound?: UnpackBound
  /** The packed bytes can be read at any position, as those of an upload. */
  isFile?: boolean
}

/** Spooled zips that are still there. */
let spooled = 0

function pieces(bytes: Buffer, { pieceLength = 65_536, bound, isFile = false }: Unpacking = {}) {
  return unpacked(inPieces(bytes, pieceLength), {
    what: 'the file',
    signal: new AbortController().signal,
    bound: bound ?? uploadBound(bytes.length, 'the file'),
    spool: async (content) => {
      const copy = Buffer.concat(await Array.fromAsync(content))
      spooled += 1
      return { ...fileOf(copy), close: () => Promise.resolve(void (spooled -= 1)) }
    },
    file: isFile ? fileOf(bytes) : undefined,
  })
}

const unpack = async (bytes: Buffer, options: Unpacking = {}): Promise<string> =>
  Buffer.concat(await Array.fromAsync(pieces(bytes, options))).toString()

const concat = (...parts: (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part)))
const gzip = (content: Buffer | string): Buffer => gzipSync(content)
const zstd = (content: Buffer | string): Buffer => zstdCompressSync(content)
const zip = (content: Buffer | string): Buffer => makeZip([{ name: 'a.csv', content }])
const both = table + more

const readable: [what: string, bytes: Buffer, content: string][] = [
  ['no container', concat(table), table],
  ['nothing', concat(''), ''],
  ['a byte of gzip', concat('\u001f'), '\u001f'],
  ['two members of gzip', concat(gzip(table), gzip(more)), both],
  ['a padded gzip', concat(gzip(table), zeros), table],
  ['a gzip of nothing', gzip(''), ''],
  ['two frames of zstd', concat(zstd(table), zstd(more)), both],
  ['a padded zstd', concat(zstd(table), zeros), table],
  ['skipped frames of zstd', concat(skippedFrame, zstd(table), skippedFrame, zstd(more), skippedFrame), both],
  ['a zip', zip(table), table],
  ['a padded zip', makeZip([{ name: 'a.csv', content: table }], { tail: zeros }), table],
  [
    'a zip with a comment',
    makeZip([{ name: 'a.csv', content: table }], { comment: 'PK\u0005\u0006' }),
    table,
  ],
  [
    'a padded zip with a comment',
    makeZip([{ name: 'a', content: table }], { comment: 'x', tail: zeros }),
    table,
  ],
  ['a zip of stored data', makeZip([{ name: 'a.csv', content: table, method: 0 }]), table],
  ['a zip of an empty file', makeZip([{ name: 'a.csv' }]), ''],
  ['a zip that was streamed', makeZip([{ name: 'a.csv', content: table, streamed: true }]), table],
  ['a Zip64', makeZip([{ name: 'a.csv', content: table, zip64: true }]), table],
  ['a zip with a mark of parts', concat('PK00', shifted(zip(table), 4)), table],
  ['a name that is no path', makeZip([{ name: '../../C:\\x//a.csv', content: table }]), table],
  ...[
    'Shift_JIS: 8ee98bcb95bb955c2e637376',
    'Shift_JIS, no ending: 955c',
    'GBK: b95c2e637376',
    'Big5: a55c2e637376',
  ].map((name): [string, Buffer, string] => [
    `a name with a backslash as a second byte (${name})`,
    makeZip([{ name: Buffer.from(name.replace(/.*: /, ''), 'hex'), content: table }]),
    table,
  ]),
  [
    'a hidden file whose folder ends like the first byte of a character',
    makeZip([
      { name: Buffer.from('f\x81/.hidden', 'latin1'), content: 'x' },
      { name: Buffer.from('f\x81/', 'latin1') },
      { name: Buffer.from('\x83\x83\\.hidden', 'latin1'), content: 'x' },
      { name: 'a.csv', content: table },
    ]),
    table,
  ],
  ['a gzip in a zip', zip(gzip(table)), table],
  ['a zip in a gzip', gzip(zip(table)), table],
  ['a zip in a zip', zip(zip(table)), table],
  ['a zstd in a gzip', gzip(zstd(table)), table],
  [
    'a zip with what systems add',
    makeZip([
      { name: 'folder/' },
      { name: 'folder\\' },
      { name: 'folder/list.csv', content: table },
      { name: '__MACOSX/folder/._list.csv', content: 'x', streamed: true },
      { name: '__MACOSX/list.csv', content: 'x' },
      { name: 'folder/.DS_Store', content: 'x', flags: 1 },
      { name: 'folder\\.hidden', content: 'x', method: 12 },
      { name: 'folder/Thumbs.db', content: 'x' },
      { name: 'desktop.ini', content: 'x' },
    ]),
    table,
  ],
]

/** The offsets in the directory of a zip of one file, for bytes in front of it. */
function shifted(bytes: Buffer, by: number): Buffer {
  const end = bytes.length - 22
  const start = bytes.readUInt32LE(end + 16)
  bytes.writeUInt32LE(start + by, end + 16)
  bytes.writeUInt32LE(bytes.readUInt32LE(start + 42) + by, start + 42)
  return bytes
}

t.test('containers are unpacked, whole', async (t) => {
  for (const [what, bytes, content] of readable) {
    for (const pieceLength of [1, 7, 65_536]) {
      t.equal(await unpack(bytes, { pieceLength }), content, `${what} in pieces of ${pieceLength}`)
      t.equal(await unpack(bytes, { pieceLength, isFile: true }), content, `${what} as an upload`)
    }
    const sample = { bytes, isWhole: true }
    const options = { what, signal: new AbortController().signal, maxBytes: 1_000 }
    t.equal(String((await unpackSample(sample, options)).bytes), content, `${what} as a sample`)
  }
  t.equal(spooled, 0, 'no zip stays')
})

const damaged = (bytes: Buffer, at: number): Buffer => {
  const copy = Buffer.from(bytes)
  copy.writeUInt8((copy.at(at) ?? 0) ^ 0x55, at < 0 ? bytes.length + at : at)
  return copy
}
const long = randomBytes(300_000).toString('hex')
const checkedZstd = zstdCompressSync(long, { params: { 201: 1 } })
const names = Array.from({ length: 12 }, (_, i) => ({ name: `list${i}.csv`, content: table }))

const refused: [what: string, bytes: Buffer, message: RegExp, code?: string][] = [
  ['a member behind padding', concat(gzip(table), zeros, gzip(more)), /data after the end|no intact gzip/],
  ['bytes behind gzip', concat(gzip(table), 'xx'), /data after the end|no intact gzip/],
  ['a gzip without its end', gzip(table).subarray(0, -3), /is cut off/],
  ['a gzip without its second end', concat(gzip(table), gzip(more).subarray(0, -9)), /is cut off/],
  ['a wrong checksum of gzip', damaged(gzip(long), -7), /is damaged.*checksum/],
  ['damaged gzip', damaged(gzip(long), 3_000), /is damaged|no intact gzip/],
  ['no gzip', Buffer.from('1f8b3f0000000000', 'hex'), /no intact gzip/],
  ['bytes behind zstd', concat(zstd(table), 'xxxxxxx'), /data after the end/],
  ['a frame behind padding', concat(zstd(table), zeros, zstd(more)), /data after the end/],
  ['a zstd without its end', zstd(long).subarray(0, -3), /is cut off/],
  ['a skipped frame without its end', concat(zstd(table), skippedFrame.subarray(0, -2)), /is cut off/],
  ['a wrong checksum of zstd', damaged(checkedZstd, -1), /is damaged.*checksum/],
  ['a zip without its end', zip(long).subarray(0, -30), /is cut off/],
  ['half a zip', zip(long).subarray(0, 100_000), /is cut off/],
  [
    'bytes behind a zip',
    makeZip([{ name: 'a', content: table }], { tail: concat('xx') }),
    /data after the end/,
  ],
  [
    'bytes behind zeros',
    makeZip([{ name: 'a', content: table }], { tail: concat(zeros, 'x') }),
    /data after/,
  ],
  ['a wrong checksum', makeZip([{ name: 'a', content: table, checksum: 7 }]), /is damaged.*checksum/],
  ['a wrong size', makeZip([{ name: 'a', content: table, size: 7 }]), /is damaged.*checksum/],
  ['a wrong number of files', withOneFileSaid(makeZip(names.slice(0, 2))), /more files than it says/],
  [
    'cut data',
    makeZip([{ name: 'a', content: long, packed: deflateRawSync(long).subarray(0, 9_000) }]),
    /cut off/,
  ],
  [
    'damaged data',
    makeZip([{ name: 'a', content: long, packed: concat('\u00ff\u00ff') }]),
    /no intact deflate/,
  ],
  ['a damaged directory', damaged(zip(table), zip(table).indexOf('PK\u0001\u0002')), /no intact zip/],
  ['an offset outside', shifted(zip(table), 5_000), /no intact zip/],
  [
    'an encrypted file',
    makeZip([{ name: 'a', content: table, flags: 1 }]),
    /encrypted.*without a password/,
    'content_refused',
  ],
  [
    'AES',
    makeZip([{ name: 'a', content: table, method: 99, packed: concat('x') }]),
    /encrypted/,
    'content_refused',
  ],
  [
    'strong encryption',
    makeZip([{ name: 'a', content: table, flags: 0x41 }]),
    /encrypted/,
    'content_refused',
  ],
  ['a method', makeZip([{ name: 'a', content: table, method: 9 }]), /by the method 9/, 'content_refused'],
  [
    'the last part of several',
    makeZip([{ name: 'a', content: table }], { disk: 2 }),
    /several parts/,
    'content_refused',
  ],
  [
    'the first part of several',
    concat('PK\u0007\u0008', zip(long).subarray(0, 9_000)),
    /several parts/,
    'content_refused',
  ],
  ['an empty zip', makeZip([]), /a zip without a file/, 'content_refused'],
  ['only directories', makeZip([{ name: 'a/' }, { name: '.b' }]), /a zip without a file/, 'content_refused'],
  [
    'two files',
    makeZip(names.slice(0, 2)),
    /several files.*It has "list0.csv", "list1.csv"$/,
    'content_refused',
  ],
  [
    'twelve files',
    makeZip([{ name: '.hidden' }, ...names]),
    /It has ("list\d\.csv"(, )?){10} and more$/,
    'content_refused',
  ],
  [
    'a workbook',
    makeZip([
      { name: '[Content_Types].xml', content: '<x/>' },
      { name: 'xl/workbook.xml', content: '<x/>' },
    ]),
    /^the file is an Excel workbook.*save it as CSV UTF-8/,
    'content_refused',
  ],
  [
    'an OpenDocument workbook',
    makeZip([
      { name: 'mimetype', content: 'application/vnd.oasis.opendocument.spreadsheet', method: 0 },
      { name: 'content.xml', content: '<x/>' },
    ]),
    /an OpenDocument workbook/,
    'content_refused',
  ],
  ['three containers', gzip(zstd(gzip(table))), /packed more than 2 times/, 'content_refused'],
  ['three zips', zip(zip(zip(table))), /packed more than 2 times/, 'content_refused'],
]

/** The numbers of files in the last record of a zip become 1. */
function withOneFileSaid(zip: Buffer): Buffer {
  const end = zip.length - 22
  zip.writeUInt16LE(1, end + 8)
  zip.writeUInt16LE(1, end + 10)
  return zip
}

t.test('damaged and refused containers say what is wrong', async (t) => {
  for (const [what, bytes, message, code = 'source_unreadable'] of refused) {
    for (const pieceLength of [1_000, 65_536]) {
      const error = { name: 'ImportError', code, retryable: false, message }
      await t.rejects(unpack(bytes, { pieceLength }), error, `${what} in pieces of ${pieceLength}`)
      await t.rejects(unpack(bytes, { pieceLength, isFile: true }), error, `${what} as an upload`)
      await t.rejects(unpack(gzip(bytes), { pieceLength }), { name: 'ImportError' }, `${what} in a gzip`)
    }
  }
  t.equal(spooled, 0, 'no zip stays')
})

t.test('frames of zstd are whole, or the file is cut off, wherever it ends', async (t) => {
  const shapes = [{}, { params: { 201: 1 } }, { params: { 100: 1 } }, { params: { 200: 0 } }]
  const contents = ['', 'a', 'a'.repeat(70_000), more, randomBytes(300_000).toString('latin1')]
  const frames = contents.flatMap((content) => shapes.map((shape) => zstdCompressSync(content, shape)))
  for (const frame of [...frames, skippedFrame]) {
    const whole = concat(zstd(table), frame, zeros.subarray(0, 2))
    await t.resolves(unpack(whole, { pieceLength: 1 + (frame.length % 7_000) }))
    const cuts = Array.from({ length: frame.length - 1 }, (_, i) => i + 1)
    for (const cut of cuts.length < 100 ? cuts : [...cuts.slice(0, 20), ...cuts.slice(-8)])
      for (const pieceLength of [1, 100_000])
        if (cut < 400 || pieceLength > 1)
          await t.rejects(unpack(concat(zstd(table), frame.subarray(0, cut)), { pieceLength }), /is cut off/)
  }
})

t.test('the error of the source is thrown as it is, and an early end closes the source', async (t) => {
  const broken = new ImportError('source_unavailable', 'broke off', { retryable: true })
  for (const bytes of [gzip(long), zstd(long), zip(long), concat(long)]) {
    let isClosed = false
    const source = (async function* () {
      try {
        yield bytes.subarray(0, 50_000)
        await Promise.resolve()
        throw broken
      } finally {
        isClosed = true
      }
    })()
    const options = {
      what: 'the file',
      signal: new AbortController().signal,
      bound: uploadBound(1, 'the file'),
      spool: async (content: AsyncIterable<Buffer>) => {
        await Array.fromAsync(content)
        return { ...fileOf(bytes), close: () => Promise.resolve() }
      },
    }
    await t.rejects(Array.fromAsync(unpacked(source, options)), broken)
    t.ok(isClosed)
  }
  for (const bytes of [gzip(long), zstd(long), concat(long)]) {
    let isClosed = false
    const source = (async function* () {
      try {
        for await (const piece of inPieces(bytes, 1_000)) yield piece
      } finally {
        isClosed = true
      }
    })()
    const [first] = await Array.fromAsync(firstOf(decompressOrPass(source, bytes)))
    t.ok(first)
    t.ok(isClosed)
  }
})

async function* firstOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    yield piece
    return
  }
}

function decompressOrPass(source: AsyncGenerator<Buffer>, bytes: Buffer): AsyncGenerator<Buffer> {
  if (bytes[0] === 0x1f) return decompress(source, 'gzip', { what: 'the file' })
  return bytes[0] === 0x28 ? decompress(source, 'zstd', { what: 'the file' }) : source
}

t.test('the bound holds for each container, in the other one too', async (t) => {
  const bound = { bytes: 100_000, error: () => new ImportError('content_refused', 'too large') }
  const bomb = Buffer.alloc(100_001)
  const fits = Buffer.alloc(100_000)
  for (const pack of [gzip, zstd, zip]) {
    await t.rejects(unpack(pack(bomb), { bound }), { message: 'too large' })
    await t.rejects(unpack(gzip(pack(bomb)), { bound }), { message: 'too large' })
    await t.rejects(unpack(zip(pack(bomb)), { bound }), { message: 'too large' })
    t.equal((await unpack(pack(fits), { bound })).length, 100_000)
    // The outer container is a bomb, and what is in it unpacks to nothing.
    const empty = concat(...Array.from({ length: 6_000 }, () => gzip('')))
    await t.rejects(unpack(pack(empty), { bound }), { message: 'too large' })
  }
  t.equal((await unpack(concat(bomb), { bound })).length, 100_001, 'what is no container has no bound')
  t.equal(spooled, 0)
})

t.test('an upload may unpack to 64 MB and a thousand times its size', async (t) => {
  const { bytes, error } = uploadBound(1_000_000, '"a.csv"')
  t.equal(bytes, 64_000_000 + 1_000_000_000)
  t.match(error(), { code: 'content_refused', message: /"a.csv" unpacks to more than 1000 times its size/ })
})

t.test('of the beginning of a container the beginning of the file is shown', async (t) => {
  const rows = Array.from({ length: 20_000 }, (_, i) => `${i},${randomBytes(20).toString('hex')}\n`).join('')
  const cut = async (bytes: Buffer, length = 100_000) => {
    const options = { what: 'the file', signal: new AbortController().signal, maxBytes: 1_000_000 }
    const sample = await unpackSample({ bytes: bytes.subarray(0, length), isWhole: false }, options)
    t.notOk(sample.isWhole)
    return sample.bytes.toString()
  }
  const mac = makeZip([
    { name: 'folder/' },
    { name: '.DS_Store', content: 'x'.repeat(300) },
    { name: '__MACOSX/._a', content: 'x', streamed: true },
    { name: 'folder/list.csv', content: rows, streamed: true },
    { name: 'Thumbs.db', content: 'x' },
  ])
  const plain = { name: 'list.csv', content: rows }
  for (const [what, bytes] of Object.entries({
    gzip: gzip(rows),
    zip: zip(rows),
    'a stored file': makeZip([{ ...plain, method: 0 }]),
    Zip64: makeZip([{ ...plain, zip64: true }]),
    'a zip of a Mac': mac,
    'a zip in a gzip': gzip(zip(rows)),
    'a gzip in a zip': zip(gzip(rows)),
  })) {
    const text = await cut(bytes)
    t.ok(rows.startsWith(text) && text.length >= 90_000, `${what}: ${text.length}`)
  }
  const frames = concat(...rows.match(/[^]{1,50000}/g)!.map((part) => zstd(part)))
  t.ok(rows.startsWith(await cut(frames)))
  const two = makeZip([{ name: 'a.csv', content: table }, plain])
  await t.rejects(cut(two), { message: /several files.*"a.csv", "list.csv"/ })
  await t.rejects(cut(makeZip([{ ...plain, flags: 1 }])), { message: /encrypted/ })
  await t.rejects(cut(makeZip([{ ...plain, method: 9 }])), { message: /method 9/ })
  await t.rejects(cut(gzip(gzip(gzip(rows)))), { message: /more than 2 times/ })
  const workbook = makeZip([
    { name: '[Content_Types].xml', content: '<x/>' },
    { name: 'xl/a.xml', content: rows },
  ])
  await t.rejects(cut(workbook), { message: /an Excel workbook/ })
})
