import t from 'tap'
import type { RandomAccessFile } from '../../../../shared/containers/random-access-file.ts'
import { shortName, unzip, ZipFiles } from '../../../../shared/containers/zip.ts'
import { ImportError } from '../../../../shared/contract/errors.ts'
import { makeZip, type ZippedFile, type ZipOptions } from '../../../helpers/make-zip.ts'

/** Zips whose structure is unusual, read at any position as uploads are. */

const table = 'a,b\n1,2\n'
const never = new AbortController().signal
const concat = (...parts: (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part)))

interface CountedFile extends RandomAccessFile {
  reads: number
}

/** A file in memory. The reads from `failsFrom` on fail. */
function fileOf(bytes: Buffer, failure?: Error, failsFrom = 1): CountedFile {
  return {
    size: bytes.length,
    reads: 0,
    async read(target: Uint8Array, position: number) {
      this.reads += 1
      if (failure !== undefined && this.reads >= failsFrom) throw failure
      return bytes.copy(target, 0, position)
    },
  }
}

const contentOf = async (file: RandomAccessFile, signal = never): Promise<string> =>
  Buffer.concat(await Array.fromAsync(unzip(file, { what: 'the upload', signal }))).toString()

const zipOf = (options: ZipOptions = {}, file: Partial<ZippedFile> = {}): Buffer =>
  makeZip([{ name: 'a.csv', content: table, ...file }], options)

/** So many files of a Mac that the directory is larger than what is read of it at once. */
const macFiles = Array.from({ length: 6_000 }, (_, i) => ({ name: `__MACOSX/folder/._list number ${i}.csv` }))

t.test('zips of an unusual structure are read', async (t) => {
  const ofManyParts = zipOf({ disk: 0xffff }, { zip64: true })
  const readable: [what: string, zip: Buffer][] = [
    ['the longest comment', zipOf({ comment: 'x'.repeat(65_535) })],
    ['more zeros behind it than are read at once', zipOf({ tail: Buffer.alloc(1_500_000) })],
    ['a Zip64, which has the number of its part elsewhere', ofManyParts],
    ['a name that only begins like the folder of a Mac', zipOf({}, { name: 'my__MACOSX/a.csv' })],
    [
      'a directory larger than a block, behind the file',
      makeZip([{ name: 'a.csv', content: table }, ...macFiles]),
    ],
    [
      'a directory larger than a block, before the file',
      makeZip([...macFiles, { name: 'a.csv', content: table }]),
    ],
  ]
  for (const [what, zip] of readable) t.equal(await contentOf(fileOf(zip)), table, what)
  const long = Array.from({ length: 60_000 }, (_, i) => `${i},${(i * 7919) % 10_007}\n`).join('')
  t.equal(
    await contentOf(fileOf(zipOf({}, { content: long, method: 0 }))),
    long,
    'a file larger than a block',
  )
})

t.test('a directory is read in blocks', async (t) => {
  const file = fileOf(makeZip([{ name: 'a.csv', content: table }, ...macFiles]))
  await contentOf(file)
  t.ok(file.reads < 30, `${file.reads} reads for a directory of ${macFiles.length} files`)
})

t.test('what is no whole zip says so', async (t) => {
  const random = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * i * 31) % 251))
  const large = zipOf({}, { content: random, method: 0 })
  const refused: [what: string, bytes: Buffer, message: string][] = [
    ['nothing', Buffer.alloc(0), 'is cut off'],
    ['zeros', Buffer.alloc(3_000), 'is cut off'],
    ['the end is cut', large.subarray(0, -3), 'is cut off'],
    ['the comment is cut', zipOf({ comment: 'made by us' }).subarray(0, -4), 'is cut off'],
    ['only an end, with a cut comment', Buffer.from(`504b0506${'00'.repeat(16)}0500`, 'hex'), 'is cut off'],
    ['data behind the end', zipOf({ tail: concat('x') }), 'has data after the end of the zip'],
    ['the last part of several', zipOf({ disk: 3 }), 'is a part of a zip in several parts'],
    [
      'a Zip64 that is the last part of several',
      ofPart(zipOf({}, { zip64: true }), 2),
      'is a part of a zip in several',
    ],
    [
      'a part without Zip64 whose number is elsewhere',
      zipOf({ disk: 0xffff }),
      'is a part of a zip in several parts',
    ],
    [
      'a zip whose directory begins in another part',
      directoryOnPart(zipOf(), 1),
      'is a part of a zip in several',
    ],
    ['a stored file of another size', zipOf({}, { method: 0, size: 7 }), "doesn't match its checksum"],
    ['no deflate', zipOf({}, { packed: concat('\u00ff\u00ff') }), 'has no intact deflate'],
    ['an entry outside', withDirectoryAt(zipOf(), 1_000_000), 'points outside of it'],
    [
      'an entry that only begins inside',
      withDirectoryAt(zipOf(), zipOf().length - 10),
      'points outside of it',
    ],
    ['no entry where one should be', withDirectoryAt(zipOf(), 0), 'is no intact zip file'],
  ]
  for (const [what, bytes, message] of refused) {
    const error: unknown = await contentOf(fileOf(bytes)).catch((thrown: unknown) => thrown)
    t.ok(error instanceof ImportError, what)
    t.ok((error as Error).message.includes(message), what)
    t.match((error as Error).message, /^the upload /, what)
  }
})

t.test('an error names what the library of zips said as its cause', async (t) => {
  await t.rejects(contentOf(fileOf(withDirectoryAt(zipOf(), 0))), { cause: { name: 'Error' } })
})

/** The end of a zip says that its directory begins in this part. */
function directoryOnPart(zip: Buffer, part: number): Buffer {
  zip.writeUInt16LE(part, zip.length - 22 + 6)
  return zip
}

/** The end record of Zip64 says that it is in this part. */
function ofPart(zip: Buffer, part: number): Buffer {
  zip.writeUInt32LE(part, zip.indexOf('PK\u0006\u0006') + 16)
  return zip
}

/** The end of a zip says that its directory begins there. */
function withDirectoryAt(zip: Buffer, offset: number): Buffer {
  zip.writeUInt32LE(offset, zip.length - 22 + 16)
  return zip
}

t.test('errors of the file and a stop are thrown as they are', async (t) => {
  const diskError = Object.assign(new Error('the disk fails'), { code: 'EIO' })
  for (const failure of [diskError, new TypeError('a mistake')])
    for (const failsFrom of [1, 2, 3, 4, 5]) {
      const file = fileOf(zipOf(), failure, failsFrom)
      const thrown: unknown = await contentOf(file).catch((error: unknown) => error)
      t.equal(thrown, failure, `${failure.message} at read ${failsFrom} of ${file.reads}`)
    }
  const reason = new Error('stopped')
  const stopped = AbortSignal.abort(reason)
  t.equal(await contentOf(fileOf(zipOf()), stopped).catch((error: unknown) => error), reason)
  const empty = fileOf(makeZip([]))
  t.equal(
    await contentOf(empty, stopped).catch((error: unknown) => error),
    reason,
    'before its directory is read',
  )
})

t.test('of many files ten names are shown', (t) => {
  const listed = (count: number): string => {
    const files = new ZipFiles<number>('the upload')
    for (let i = 0; i < count; i += 1) files.add(`${i}.csv`, i)
    try {
      files.only(Buffer.alloc(0))
      return 'one file'
    } catch (error) {
      return (error as Error).message.replace(/^the upload is a zip .*It has /, '')
    }
  }
  const ten = Array.from({ length: 10 }, (_, i) => `"${i}.csv"`).join(', ')
  t.equal(listed(1), 'one file')
  t.equal(listed(10), ten)
  t.equal(listed(11), `${ten} and more`)
  t.equal(listed(30), `${ten} and more`)
  t.end()
})

t.test('names are enough when neither an Office file nor another message can come', (t) => {
  const filesWith = (leftOut: number, shown: number) => {
    const files = new ZipFiles<string>('the upload')
    for (let i = 0; i < leftOut; i += 1) files.add(`.hidden${i}`, '')
    for (let i = 0; i < shown; i += 1) files.add(`${i}.csv`, '')
    return files
  }
  t.equal(filesWith(988, 11).isEnough, false, '999 names')
  t.equal(filesWith(989, 11).isEnough, true, '1,000 names')
  t.equal(filesWith(991, 10).isEnough, false, '10 files')
  const late = filesWith(988, 11)
  late.add('[Content_Types].xml', '')
  t.throws(() => late.only(Buffer.alloc(0)), { message: /Office file/ }, 'name 1,000 tells an Office file')
  const tooLate = filesWith(989, 11)
  tooLate.add('[Content_Types].xml', '')
  t.throws(() => tooLate.only(Buffer.alloc(0)), { message: /several files/ }, 'name 1,001 does not')
  t.end()
})

t.test('a name is shown as its bytes say', (t) => {
  const names: [raw: Buffer, flags: number, shown: string][] = [
    [Buffer.from('Grüße.csv'), 0, 'Grüße.csv'],
    [Buffer.from('Grüße.csv'), 0x800, 'Grüße.csv'],
    [Buffer.from('955c2e637376', 'hex'), 0, '\u0095_.csv'],
    [Buffer.from('955c2e637376', 'hex'), 0x800, '\ufffd\\.csv'],
    [Buffer.from(`${'a'.repeat(100)}${'b'.repeat(100)}`), 0, `${'a'.repeat(100)}${'b'.repeat(100)}`],
    [Buffer.from(`${'a'.repeat(150)}${'b'.repeat(150)}`), 0, `${'a'.repeat(100)}…${'b'.repeat(100)}`],
  ]
  for (const [raw, flags, shown] of names) t.equal(shortName(raw, flags), shown)
  t.end()
})
