import t from 'tap'
import { IdentityReader, asciiEmailIdentity } from '../../../../shared/csv/identity-reader.ts'
import { RecordScanner, dialectBytes } from '../../../../shared/csv/record-scanner.ts'
import type { FieldDefinition } from '../../../../shared/contract/schemas/custom-field.ts'
import type { ContentFormat } from '../../../../shared/contract/schemas/import.ts'
import { TextBytes } from '../../../../shared/values/text-bytes.ts'
import { makeField, utf8Format } from '../../../helpers/make-plan.ts'
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { emailKey } from '../../../model/email-address.ts'

const latin: ContentFormat = { ...utf8Format, character_set: 'iso-8859-1' }

interface ReadOptions {
  column?: number
  format?: ContentFormat
  field?: Partial<FieldDefinition>
}

/** The identities of a file's records, null for none. */
function identitiesOf(
  content: string | Buffer,
  { column = 0, format = utf8Format, field }: ReadOptions = {},
) {
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

t.test('an unterminated record has no identity, a too long one has it in its first 64 KiB', async (t) => {
  t.same(identitiesOf('ann@b.co,"x\nbob@b.co\n'), [null, 'bob@b.co'])
  const long = 'y'.repeat(1_100_000)
  t.same(identitiesOf(`Ann@B.co,${long}\nx,${long}\n"Bob@B.co",${long}\n${long}\n`), [
    'ann@b.co',
    null,
    'bob@b.co',
    null,
  ])
  t.same(identitiesOf(`x,Ann@B.co,${long}\n${long},Ann@B.co\n`, { column: 1 }), ['ann@b.co', null])
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

/** What the fast path reads of a cell, with other bytes around it; null for none. */
function fastPath(cell: string, around: string): string | null {
  const bytes = Buffer.from(`${around}${cell}${around}`)
  const target = Buffer.alloc(1_024)
  const text = new TextBytes(bytes, around.length, bytes.length - around.length).trim()
  const length = asciiEmailIdentity(text, target)
  return length === -1 ? null : target.toString('utf8', 0, length)
}

/** It leaves domains of digits and dots alone to the slow path, which counts the numbers. */
const isNumeric = (cell: string): boolean => /@[\d.]*$/.test(cell.trim())

function check(cell: string): void {
  for (const around of ['', ' ', 'a', '@', '.', '-', ','])
    assert.equal(fastPath(cell, around), isNumeric(cell) ? null : emailKey(cell.trim()), JSON.stringify(cell))
}

t.test('the fast path reads every address in ASCII as the contract says', (t) => {
  const longLabel = 'd'.repeat(63)
  const longDomain = `${`${longLabel}.`.repeat(3)}${'d'.repeat(61)}.de`
  for (const cell of [
    ...[
      ...['Ann@B.co', ' \t\n\u000b\f\rann@b.co\r\f\u000b\n\t '],
      ...['ann@b.co\u000e', '\u0008ann@b.co', ' ', '', '@', 'a@', '@b.co'],
    ],
    ...[
      ...['a@1.2.3.4', 'a@1.2.3', 'a@1.2.3.x', 'a@1x.2', 'a@b'],
      ...['a@b.', 'a@.b', 'a@b..c', 'a@-b.c', 'a@b-.c', 'a@b.-c'],
    ],
    ...['mailto:ann@b.co', 'MailTo:ann@b.co', 'mailto@b.co', 'mailto;ann@b.co', 'ann:b:c@b.co'],
    ...['mailtoo:ann@b.co', 'a.mailto:ann@b.co', 'answer:ann@b.co', 'mailto:', 'mailto:ann'],
    ...['a@b.c-', 'a@b-c.d', 'a@b_c.d', 'a@b@c.d', 'a b@c.d', 'a@b c.d', 'a@b+c.d', 'a@b.c,', 'a^b@c.d'],
    ...[`${'l'.repeat(256)}@a.b`, `${'l'.repeat(257)}@a.b`, `a@${longLabel}.de`, `a@${longLabel}d.de`],
    ...[`a@${longDomain}`, `a@${longDomain}x`, `${'L'.repeat(256)}@${longDomain}`, `a@b.${longLabel}d`],
  ])
    check(cell)
  for (let code = 0; code < 128; code += 1)
    for (const cell of [`a${String.fromCharCode(code)}b@c.de`, `a@b${String.fromCharCode(code)}c.de`])
      check(cell)
  t.pass()
  t.end()
})

t.test('and of random texts', (t) => {
  const cell = fc
    .array(fc.constantFrom('a', 'B', '1', '.', '-', '_', '@', '@', 'b.co', ' ', '+', 'x@y.'), {
      maxLength: 9,
    })
    .map((parts) => parts.join(''))
  fc.assert(fc.property(cell, check), { numRuns: 3_000 })
  t.pass()
  t.end()
})
