import t from 'tap'
import { contentStart, contentStartIn, encodingError } from '../../../shared/csv/file-beginning.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { RecordScanner, dialectBytes } from '../../../shared/csv/record-scanner.ts'
import type { FieldDefinition } from '../../../shared/contract/schemas/custom-field.ts'
import type { FileFormat } from '../../../shared/contract/schemas/import.ts'
import { makeField, utf8Format } from '../../helpers/make-plan.ts'

const latin: FileFormat = { ...utf8Format, character_set: 'iso-8859-1' }

interface Given {
  column?: number
  format?: FileFormat
  field?: Partial<FieldDefinition>
}

/** The identities of a file's records, null for none. */
function identitiesOf(content: string | Buffer, { column = 0, format = utf8Format, field }: Given = {}) {
  const other = makeField({ id: 2, name: 'Other', field_type: 'boolean' })
  const fields = field === undefined ? [other] : [other, makeField({ id: 3, name: 'Key', ...field })]
  const identity =
    field === undefined
      ? { kind: 'email' as const, column, field_id: null }
      : { kind: 'text' as const, column, field_id: 3 }
  const reader = new IdentityReader({ identity, fields }, format)
  const found: (string | null)[] = []
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: column,
    onRecord: (record) => {
      const length = reader.read(record)
      found.push(length === -1 ? null : reader.identityBytes.toString('utf8', 0, length))
    },
  })
  const bytes = Buffer.from(content as string)
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at)
    scanner.advance(copied)
    at += copied
  }
  scanner.end()
  return found
}

t.test('the identity is the comparison form of the cell at its place', async (t) => {
  t.same(identitiesOf(' Ann@B.Example\t,x\nnobody\nann@b\u00fccher.example\n'), [
    'ann@b.example',
    null,
    'ann@xn--bcher-kva.example',
  ])
  t.same(identitiesOf('x,y,Ann@B.co,z\nx,y,Ann@B.co\nx,y\nx,y,\n', { column: 2 }), [
    'ann@b.co',
    'ann@b.co',
    null,
    null,
  ])
  t.same(identitiesOf('"a,b","Ann@B.co "\nx,"Ann""x@B.co"\n"x"\n"x" y,ann@b.co\n', { column: 1 }), [
    'ann@b.co',
    null,
    null,
    'ann@b.co',
  ])
  t.same(
    identitiesOf("x;'Ann@B.co'\n", {
      column: 1,
      format: { ...utf8Format, csv_field_separator: ';', csv_field_enclosure: "'" },
    }),
    ['ann@b.co'],
  )
})

t.test('a primary key is compared as text without case, by its value', async (t) => {
  t.same(identitiesOf('K\u00d6LN\n ab \n\n""\n', { field: {} }), ['k\u00f6ln', 'ab', null])
  t.same(identitiesOf('007\n7\nx\n', { field: { field_type: 'number' } }), ['7', '7', null])
  t.same(
    identitiesOf('2/1/2014\n', {
      field: { field_type: 'date' },
      format: { ...utf8Format, date_format: 'dmy' },
    }),
    ['2014-01-02'],
  )
  const long = 'x'.repeat(5_000)
  t.same(identitiesOf(`${long}\nab\n`, { field: {} }), [long, 'ab'], 'longer than the buffer at first')
})

t.test('bad bytes and NUL leave no identity in their own cell alone', async (t) => {
  const bad = Buffer.from([0x41, 0xff])
  const row = (...parts: (string | Buffer)[]) =>
    Buffer.concat(parts.map((part) => Buffer.from(part as string)))
  const key = { field: {} }
  t.same(identitiesOf(row(bad, ',x\n'), key), [null])
  t.same(identitiesOf(row('ab,', bad, '\n'), key), ['ab'])
  t.same(identitiesOf(row('"', bad, '"\n'), key), [null])
  t.same(
    identitiesOf(row('\u00e4\ufffd\n"\ufffd"\n'), key),
    ['\u00e4\ufffd', '\ufffd'],
    'the character itself',
  )
  t.same(identitiesOf(row(bad, '\n"', bad, '"\n'), { ...key, format: latin }), ['a\u00ff', 'a\u00ff'])
  t.same(identitiesOf('a\0b\n"a\0b"\nab\n', key), [null, null, 'ab'])
})

t.test('an unterminated record has no identity, a too long one has that of its cell', async (t) => {
  t.same(identitiesOf('ann@b.co,"x\nbob@b.co\n'), [null, 'bob@b.co'])
  const long = 'y'.repeat(1_100_000)
  t.same(identitiesOf(`Ann@B.co,${long}\nx,${long}\n"Bob@B.co",${long}\n${long}\n`), [
    'ann@b.co',
    null,
    'bob@b.co',
    null,
  ])
  t.same(identitiesOf(`${long},Ann@B.co\n${long}\n`, { column: 1 }), ['ann@b.co', null])
  const bad = Buffer.concat([Buffer.from([0xff, 0x2c]), Buffer.from(`${long}\n`)])
  t.same(identitiesOf(bad, { field: {} }), [null])
  t.same(identitiesOf(bad, { field: {}, format: latin }), ['\u00ff'])
  t.same(identitiesOf(`\ufffd,${long}\n`, { field: {} }), ['\ufffd'], 'the character itself')
})

t.test('bytes behind a record are not read', async (t) => {
  const plan = {
    identity: { kind: 'email' as const, column: 0, field_id: null },
    fields: [],
  }
  const read = (text: string, end: number, column = 0) => {
    const reader = new IdentityReader({ ...plan, identity: { ...plan.identity, column } }, utf8Format)
    const record = { bytes: Buffer.from(text), start: 0, end, line: 1, lines: 1, flags: 0, longCell: null }
    const length = reader.read(record)
    return length === -1 ? null : reader.identityBytes.toString('utf8', 0, length)
  }
  t.equal(read('ann@b.com', 8), 'ann@b.co')
  t.equal(read('x,ann@b.com', 10, 1), 'ann@b.co')
  t.equal(read('x', 1, 1), null)
  t.equal(read('xyann@b.co', 1, 1), null)
})

t.test('a key that looks like an address is under the rules of its field', async (t) => {
  t.same(identitiesOf('ann@b.co\na@b.c\n', { field: { maximum_length: 5 } }), [null, 'a@b.c'])
})

t.test('a domain of four numbers is none, and one of three is', async (t) => {
  t.same(identitiesOf('a@1.2.3.4\na@1.2.3\na@1.2.3.x\n"a@1.2.3.4"\n'), [null, 'a@1.2.3', 'a@1.2.3.x', null])
})

t.test('64 KiB of a file tell where its content begins', async (t) => {
  for (const size of [10, 65_536, 200_000]) {
    let read = 0
    const source = {
      size,
      read: (target: Buffer) => {
        read += target.length
        target.fill('a')
        target.write('\ufeff')
        return Promise.resolve(target.length)
      },
      close: () => Promise.resolve(),
    }
    t.equal(await contentStart(source), 3)
    t.equal(read, Math.min(size, 65_536))
  }
})

t.test('the content of a file begins behind its byte order mark', async (t) => {
  t.equal(contentStartIn(Buffer.from('\ufeffa@b.co')), 3)
  for (const start of ['a@b.co', '', '\u00e4', '\uf000x'])
    t.equal(contentStartIn(Buffer.from(start)), 0, JSON.stringify(start))
  t.equal(contentStartIn(Buffer.from([0xef, 0xbb, 0x41])), 0)
  t.equal(contentStartIn(Buffer.from([0xef, 0x41, 0xbf])), 0)
  t.equal(contentStartIn(Buffer.from([0x41, 0xbb, 0xbf])), 0)
  for (const mark of [
    [0xff, 0xfe],
    [0xfe, 0xff],
  ])
    t.throws(() => contentStartIn(Buffer.from([...mark, 0x41])), {
      code: 'content_refused',
      message: 'the file begins with a UTF-16 byte order mark: save it as UTF-8 and import it again',
    })
  for (const bytes of [
    [0xff, 0x41],
    [0xfe, 0x41],
    [0x41, 0xfe],
    [0x41, 0xff],
    [0xff, 0xff],
    [0xfe, 0xfe],
  ])
    t.equal(contentStartIn(Buffer.from(bytes)), 0)
})

t.test('a file with many NUL bytes at its beginning is no text', async (t) => {
  const withNuls = (nuls: number, length: number) => {
    const bytes = Buffer.alloc(length, 'a')
    bytes.fill(0, length - nuls)
    return bytes
  }
  t.equal(contentStartIn(withNuls(99, 99)), 0, 'fewer than a hundred')
  t.equal(contentStartIn(withNuls(100, 10_000)), 0, 'one in a hundred')
  for (const [nuls, length] of [
    [100, 9_999],
    [100, 100],
    [101, 10_000],
  ] as const)
    t.throws(() => contentStartIn(withNuls(nuls, length)), {
      code: 'content_refused',
      message: `${nuls} of the first ${length} bytes are NUL, so the file isn't CSV text; it may be UTF-16, a spreadsheet or an archive: save it as CSV in UTF-8`,
    })
  t.equal(contentStartIn(withNuls(1_000, 65_536 + 1_000)), 0, 'what comes behind 64 KiB is not looked at')
})

t.test('a file is refused when the greater part of its records is invalid', async (t) => {
  t.equal(encodingError(0, 0), null)
  t.equal(encodingError(5, 10), null)
  t.match(encodingError(6, 10), {
    code: 'content_refused',
    message:
      '6 of the first 10 records are invalid UTF-8: if the file is ISO-8859-1, import it with "character_set": "ISO-8859-1"',
  })
})
