import t from 'tap'
import { rowReader } from '../../../shared/rows/row-reader.ts'
import { makeField, makeOptions, makePlan, utf8Format } from '../../helpers/make-plan.ts'

const plan = makePlan({
  time_zone_name: 'Europe/Berlin',
  has_format: true,
  has_confirmed: true,
  columns: [
    { kind: 'built_in', name: 'email' },
    { kind: 'built_in', name: 'status' },
    { kind: 'built_in', name: 'subscribe_time' },
    { kind: 'built_in', name: 'subscribe_ip' },
    null,
    { kind: 'field', field_id: 7 },
    { kind: 'built_in', name: 'confirmed' },
    { kind: 'built_in', name: 'email_format' },
  ],
  fields: [makeField({ id: 7, name: 'Points', field_type: 'number', minimum_value: 0, maximum_value: 10 })],
})
const reader = rowReader(plan, makeOptions({ file_format: { ...utf8Format, date_format: 'dmy' } }))

t.test('a row is read cell by cell, trimmed', async (t) => {
  const row = reader.read([
    ' Ann@Example.com ',
    'Unsubscribed',
    '31/12/2014 10:00',
    '2001:DB8::0:1',
    'ignored',
    ' 007 ',
    'Yes',
    'HTML',
  ])
  t.match(row, {
    email: 'Ann@Example.com',
    status: 'unsubscribed',
    subscribe_time: new Date('2014-12-31T09:00:00Z'),
    subscribe_ip: '2001:db8::1',
    fields: [7],
    confirmed: true,
    email_format: 'html',
  })
})

t.test('blank and missing cells bring no value', async (t) => {
  t.match(reader.read(['a@b.co', ' ', '\u00a0']), {
    email: 'a@b.co',
    status: null,
    subscribe_time: null,
    fields: [null],
    confirmed: null,
    email_format: null,
  })
})

t.test('reasons name the column, show the value and say what was expected, all of them', async (t) => {
  t.equal(
    reader.read(['a@b.co', 'gone', '32/12/2014', '1.2.3', '', '11', 'maybe', 'rtf']),
    "status: 'gone' is not one of active, bounced, unsubscribed, scomp, deactivated; " +
      "subscribe_time: '32/12/2014' is not a date or time in a documented form (dmy), in the years 1000 to 9999; " +
      "subscribe_ip: '1.2.3' is not an IPv4 or IPv6 address; " +
      "Points: '11' is not an integer from 0 to 10; " +
      "confirmed: 'maybe' is not yes or no; " +
      "email_format: 'rtf' is not one of html, text, both",
  )
  t.match(reader.read(['a@b.co', `x\n${'y'.repeat(100)}`]), /status: 'x y{58}\.\.\.' is not one of/)
  t.equal(reader.identityProblem(['']), 'email: the cell is blank instead of an email address')
  t.equal(reader.identityProblem(['x@y']), "email: 'x@y' is not an email address")
})

t.test('a record may be longer than the mapping only by blanks', async (t) => {
  t.equal(typeof reader.read(['a@b.co', '', '', '', '', '', '', '', ' ', '']), 'object')
  t.equal(
    reader.read(['a@b.co', '', '', '', '', '', '', '', '', 'x']),
    "the record has 10 cells, the mapping 8 columns: the first one too many is 'x'",
  )
})

t.test('on a list with a primary key the email is a cell like others, and may not be blank', async (t) => {
  const keyed = rowReader(
    makePlan({
      identity: { kind: 'text', column: 0, field_id: 3 },
      columns: [
        { kind: 'field', field_id: 3 },
        { kind: 'built_in', name: 'email' },
      ],
      fields: [makeField({ id: 3, name: 'Number', required: true })],
    }),
    makeOptions(),
  )
  t.match(keyed.read(['K1', 'a@b.co']), { email: 'a@b.co', fields: ['K1'] })
  t.equal(keyed.read(['K1', '']), 'email: the cell is blank instead of an email address')
  t.equal(keyed.read(['K1', 'nobody']), "email: 'nobody' is not an email address")
  t.equal(
    keyed.identityProblem(['', 'a@b.co']),
    'Number: the cell is blank instead of a text of 0 to 65535 characters',
  )
})
