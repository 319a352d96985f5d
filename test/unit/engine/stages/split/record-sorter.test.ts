import t from 'tap'
import { PartitionOutput } from '../../../../../engine/stages/split/range-writer.ts'
import { RecordSorter } from '../../../../../engine/stages/split/record-sorter.ts'
import type { ScannedRecord } from '../../../../../shared/csv/record-scanner.ts'
import type { ContentFormat } from '../../../../../shared/contract/schemas/import.ts'
import { makePlan, utf8Format } from '../../../../helpers/make-plan.ts'

const latin: ContentFormat = { ...utf8Format, character_set: 'iso-8859-1' }
const withHeader: ContentFormat = { ...utf8Format, csv_has_headers: true }
const bad = Buffer.from([0x78, 0xff])

function makeSorter(format = utf8Format, targetBytes = 1_000) {
  const written: Buffer[] = []
  const output = new PartitionOutput({
    append: (buffers) => {
      written.push(...buffers.map((buffer) => Buffer.from(buffer)))
      return Promise.resolve()
    },
    close: () => Promise.resolve(),
  })
  const borders = [Buffer.from('m')]
  const plan = makePlan()
  const sorter = new RecordSorter({
    output,
    bufferSize: 64,
    borders,
    targetBytes,
    plan,
    format,
  })
  let line = 0
  const add = (text: string | Buffer, flags = 0) => {
    line += 1
    const bytes = Buffer.concat([Buffer.from('<'), Buffer.from(text as string), Buffer.from('>')])
    const place = { start: 1, end: bytes.length - 1 }
    sorter.add({ bytes, ...place, line, lines: 1, flags, longCell: null } satisfies ScannedRecord)
  }
  const finish = async () => {
    const ranges = sorter.finish()
    await output.end()
    return { ...ranges, bytes: Buffer.concat(written) }
  }
  return { sorter, add, finish }
}

/** A record in the form of the partition file (shared/csv/partition-file.ts). */
function staged(number: number, line: number, flags: number, identity: string, bytes: Buffer): Buffer {
  const header = Buffer.alloc(16)
  header.writeUInt32LE(number, 0)
  header.writeUInt32LE(line, 4)
  header.writeUInt32LE(bytes.length + flags * 2 ** 24, 8)
  header.writeUInt32LE(identity.length, 12)
  return Buffer.concat([header, Buffer.from(identity), bytes])
}

t.test('records go to the range of their identity, those without one to ranges of their own', async (t) => {
  const { sorter, add, finish } = makeSorter()
  add('Ann@b.co,x')
  add('no address', 0)
  add('zoe@b.co', 0)
  add('"ann@b.co" ', 3)
  const { sorted, unidentified, bytes } = await finish()
  t.equal(sorter.records, 4)
  t.same(
    [...sorted, ...unidentified].map(({ kind, records, from, to }) => [
      kind,
      records,
      from?.toString(),
      to?.toString(),
    ]),
    [
      ['sorted', 2, undefined, 'm'],
      ['sorted', 1, 'm', undefined],
      ['unidentified', 1, undefined, undefined],
    ],
  )
  const content = [...sorted, ...unidentified].map(({ pieces }) => {
    const parts = []
    for (let i = 0; i < pieces.length; i += 2)
      parts.push(bytes.subarray(pieces[i], pieces[i]! + pieces[i + 1]!))
    return Buffer.concat(parts)
  })
  t.same(content, [
    Buffer.concat([
      staged(1, 1, 0, 'ann@b.co', Buffer.from('Ann@b.co,x')),
      staged(4, 4, 3, 'ann@b.co', Buffer.from('"ann@b.co" ')),
    ]),
    staged(3, 3, 0, 'zoe@b.co', Buffer.from('zoe@b.co')),
    staged(2, 2, 0, '', Buffer.from('no address')),
  ])
})

t.test('a range of records without an identity ends with the one that brings it to the target', async (t) => {
  const { add, finish } = makeSorter(utf8Format, 10)
  for (const text of ['12345', '12345', '123456789', 'x', 'y']) add(text)
  const { unidentified } = await finish()
  t.same(
    unidentified.map(({ records }) => records),
    [2, 2, 1],
  )
  t.same((await makeSorter().finish()).unidentified, [])
})

t.test('the header is read and is no record, and only where the format has one', async (t) => {
  const first = makeSorter(withHeader)
  first.add('"E-mail" ,N\u00e4me', 3)
  first.add('ann@b.co')
  t.equal(first.sorter.records, 1)
  t.same(first.sorter.header, ['E-mail', 'N\u00e4me'])
  t.same(first.sorter.warnings.sentences, [])

  const withLatin = makeSorter({ ...latin, csv_has_headers: true })
  withLatin.add(Buffer.from('N\u00e4me', 'latin1'))
  t.same(withLatin.sorter.header, ['N\u00e4me'])

  const none = makeSorter()
  none.add('ann@b.co')
  t.equal(none.sorter.header, null)
})

t.test('a header that is a record, and a record that is a header, are warned of', async (t) => {
  const header = makeSorter(withHeader)
  header.add('ann@b.co')
  t.equal(header.sorter.warnings.sentences.length, 1)
  const record = makeSorter()
  record.add('Email')
  record.add('Email')
  t.equal(record.sorter.warnings.sentences.length, 1)
  const later = makeSorter()
  later.add('ann@b.co')
  later.add('Email')
  t.same(later.sorter.warnings.sentences, [], 'only the first record can be a header')
  const behindHeader = makeSorter(withHeader)
  behindHeader.add('Address')
  behindHeader.add('Email')
  t.same(behindHeader.sorter.warnings.sentences, [])
  const lines = makeSorter()
  const bytes = Buffer.from('x')
  lines.sorter.add({ bytes, start: 0, end: 1, line: 3, lines: 30, flags: 0, longCell: null })
  t.equal(lines.sorter.warnings.sentences.length, 1, 'records are given to the warnings')
})

t.test('a file is refused when more than half of its first 1,000 records are invalid UTF-8', async (t) => {
  const refused = (bad: number, records: number) => ({
    code: 'content_refused',
    message: new RegExp(`^${bad} of the first ${records} records are invalid UTF-8`),
  })
  const few = makeSorter()
  few.add(bad)
  few.add(bad)
  few.add('x')
  await t.rejects(few.finish, refused(2, 3))
  const half = makeSorter()
  half.add(bad)
  half.add('x')
  await half.finish()

  const many = makeSorter()
  for (let i = 0; i < 999; i += 1) many.add(i < 501 ? bad : 'x')
  t.throws(() => many.add('x'), refused(501, 1_000))
  const later = makeSorter()
  for (let i = 0; i < 1_000; i += 1) later.add(i < 500 ? bad : 'x')
  for (let i = 0; i < 600; i += 1) later.add(bad)
  await later.finish()
  t.equal(later.sorter.records, 1_600)

  const latinFile = makeSorter(latin)
  for (let i = 0; i < 1_000; i += 1) latinFile.add(bad)
  await latinFile.finish()
})

t.test('a file has at most 4,294,967,295 records', (t) => {
  const { sorter, add } = makeSorter()
  sorter.records = 0xffffffff - 1
  add('ann@b.co')
  t.equal(sorter.records, 0xffffffff)
  t.throws(() => add('x'), {
    code: 'content_refused',
    message: 'the file has more than 4294967295 records: split it into several files',
  })
  t.end()
})
