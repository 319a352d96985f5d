import t from 'tap'
import { cellReason, exampleOf, RowFailure, wholeFault } from '../../../../shared/csv/row-fault.ts'
import {
  columnExpectation,
  readRow,
  rowReader as realReader,
  type Row,
} from '../../../../shared/csv/row-reader.ts'
import { TextBytes } from '../../../../shared/values/text-bytes.ts'
import {
  cellsOf,
  columnsOf,
  makeField,
  makeOptions,
  makePlan,
  utf8Format,
} from '../../../helpers/make-plan.ts'

/** A failure as its reason alone; a row with strings for its texts, and dates for its times. */
function reasonOr(row: Row | RowFailure): Row | string {
  if (row instanceof RowFailure) return row.reason
  const shown = (value: unknown) => (value instanceof TextBytes ? value.toString() : value)
  const entries = Object.entries(row).map(([name, value]) => [
    name,
    typeof value === 'number' ? new Date(value) : shown(value),
  ])
  return { ...Object.fromEntries(entries), fields: row.fields.map(shown) }
}

function rowReader(...args: Parameters<typeof realReader>) {
  const reader = realReader(...args)
  return {
    ...reader,
    read: (cells: string[]) => reasonOr(reader.read(cellsOf(cells))),
    identityProblem: (cells: string[]) => reader.identityFailure(cellsOf(cells)).reason,
  }
}

const plan = makePlan({
  time_zone_name: 'Europe/Berlin',
  has_format: true,
  has_confirmed: true,
  columns: columnsOf(
    'email',
    'status',
    'subscribe_time',
    'subscribe_ip',
    null,
    7,
    'confirmed',
    'email_format',
  ),
  fields: [makeField({ id: 7, name: 'Points', field_type: 'number', minimum_value: 0, maximum_value: 10 })],
})
const dmy = makeOptions({ file_format: { ...utf8Format, csv_skip_lines: 0, date_format: 'dmy' } })
const reader = rowReader(plan, dmy)

t.test('a row is read cell by cell, trimmed', async (t) => {
  const row = reader.read([
    ...[' Ann@Example.com ', 'Unsubscribed', '31/12/2014 10:00'],
    ...['2001:DB8::0:1', 'ignored', ' 007 ', 'Yes', 'HTML'],
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

t.test('cells that mean none or protect a text are read as meant; remarkable ones are noted', async (t) => {
  for (const mark of ['0000-00-00 00:00:00', 'NULL', '0/0/00', '\\N'])
    t.match(reader.read(['a@b.co', '', mark]), { subscribe_time: null, remarks: ['no_dates'] }, mark)
  t.match(reader.read(['="Ann@b.co"', '="active"', '="1.2.2014"', '', '', '="007"', '=""']), {
    ...{ email: 'Ann@b.co', status: 'active', subscribe_time: new Date('2014-01-31T23:00:00Z') },
    ...{ fields: [7], confirmed: null, remarks: null },
  })
  t.match(reader.read(['a@b.co', '', '', '', '', '=007']), /'=007' is not an integer/)
  t.match(reader.read(['ann@exam\u00adple.com']), {
    email: 'ann@example.com',
    remarks: ['invisible_characters'],
  })
  t.match(reader.read(['a@B\u00fcCHER.example']), { email: 'a@b\u00fccher.example', remarks: null })
  for (const email of ['Ann|ann@example.com', '{{email}}@example.com'])
    t.match(reader.read([email]), { email, remarks: ['unusual_addresses'] })
  const separator = /":" and ";" belong to a label or separate cells; is csv_field_separator right\?/
  for (const text of ['SMTP:ann@example.com', 'Ann;ann@example.com', 'ann@example.com; bob@example.com'])
    t.match(reader.identityProblem([text]), separator, text)
  const days = rowReader(
    makePlan({
      columns: [
        { kind: 'built_in', name: 'email' },
        ...[1, 2].map((id) => ({ kind: 'field' as const, field_id: id })),
      ],
      fields: [
        makeField({ id: 1, name: 'Born', field_type: 'date' }),
        makeField({ id: 2, name: 'Day', field_type: 'day_of_year' }),
      ],
    }),
    dmy,
  )
  t.match(days.read(['a@b.co', '0000-00-00', 'NULL']), {
    fields: [null, null],
    remarks: ['no_dates', 'no_dates'],
  })
})

t.test('reasons name the column, show the value and say what was expected, all of them', async (t) => {
  t.equal(
    reader.read(['a@b.co', 'gone', '32/12/2014', '1.2.3', '', '11', 'maybe', 'rtf']),
    "status: 'gone' is not one of active, bounced, unsubscribed, scomp, deactivated; " +
      "subscribe_time: '32/12/2014' is not a date or time such as 2014-12-31 or 31/12/2014, in the years 1000 to 9999; " +
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
    "the record has 10 cells, but the mapping has 8 columns; the first extra cell is 'x'",
  )
})

t.test('on a list with a primary key the email is a cell like others, and may not be blank', async (t) => {
  const keyed = rowReader(
    makePlan({
      identity: { kind: 'text', column: 0, field_id: 3 },
      columns: columnsOf(3, 'email'),
      fields: [makeField({ id: 3, name: 'Number', required: true })],
    }),
    makeOptions(),
  )
  t.match(keyed.read(['K1', 'a@b.co']), { email: 'a@b.co', fields: ['K1'] })
  t.equal(keyed.read(['K1', '']), 'email: the cell is blank instead of an email address')
  t.equal(keyed.read(['K1', 'nobody']), "email: 'nobody' is not an email address")
  t.equal(keyed.read(['', 'a@b.co']), 'Number: the cell is blank instead of a text of 0 to 65535 characters')
  t.equal(
    keyed.identityProblem(['', 'a@b.co']),
    'Number: the cell is blank instead of a text of 0 to 65535 characters',
  )
})

t.test('a status is understood as other systems name it; case, blanks, _ and - do not count', async (t) => {
  const names = {
    active: ['active', 'Subscribed', 'CONFIRMED', 'opted in', 'Opt-In'],
    unsubscribed: [
      ...['unsubscribed', 'opted-out', 'OPT_OUT', 'Not Subscribed', 'non-subscribed', 'NEVER_SUBSCRIBED'],
      'Suppressed',
    ],
    bounced: ['bounced', 'Cleaned', 'hard bounce', 'HARD_BOUNCED'],
    scomp: ['scomp', 'spam', 'Spam-Complaint', 'complained'],
    deactivated: ['deactivated', 'Inactive', 'disabled', 'Archived'],
  }
  for (const [status, texts] of Object.entries(names))
    for (const text of texts) t.match(reader.read(['a@b.co', text]), { status }, text)
  for (const text of ['optin', 'unconfirmed', 'yes', '1', 'bounce', 'un subscribed', 'subscribed!'])
    t.match(reader.read(['a@b.co', text]), /^status: .* is not one of/, text)
})

t.test('consent is yes or no, or whether somebody is subscribed', async (t) => {
  const consent = rowReader(
    makePlan({ columns: [plan.columns[0]!, { kind: 'built_in', name: 'consent' }] }),
    makeOptions(),
  )
  for (const text of ['yes', 'TRUE', '1', 'on', 'Subscribed'])
    t.match(consent.read(['a@b.co', text]), { status: 'active' }, text)
  for (const text of ['no', 'F', '0', 'off', 'not subscribed', 'Not_Subscribed'])
    t.match(consent.read(['a@b.co', text]), { status: 'unsubscribed' }, text)
  t.match(consent.read(['a@b.co', ' ']), { status: null })
  for (const text of ['active', 'opted in', 'never subscribed', 'perhaps'])
    t.equal(consent.read(['a@b.co', text]), `consent: '${text}' is not yes or no`)
})

const at = (text: string) => new Date(`${text}T00:00:00Z`)

t.test('each built-in column is read into its own field', async (t) => {
  const names = ['remove_time', 'confirm_time', 'subscribe_time', 'remove_ip', 'subscribe_ip'] as const
  const reader = rowReader(
    makePlan({ columns: [...names, 'email' as const].map((name) => ({ kind: 'built_in', name })) }),
    makeOptions(),
  )
  t.same(reader.read(['1/2/2014', '1/3/2014', '1/4/2014', '192.0.2.1', '192.0.2.2', 'a@b.co']), {
    ...{ email: 'a@b.co', status: null, email_format: null, confirmed: null, fields: [], remarks: null },
    ...{ remove_time: at('2014-01-02'), confirm_time: at('2014-01-03'), subscribe_time: at('2014-01-04') },
    ...{ remove_ip: '192.0.2.1', subscribe_ip: '192.0.2.2' },
  })
  t.equal(
    reader.read(['x', '31/12/2014', '', 'y', '', 'a@b.co']),
    "remove_time: 'x' is not a date or time such as 2014-12-31 or 12/31/2014, in the years 1000 to 9999; " +
      "confirm_time: '31/12/2014' is not a date or time such as 2014-12-31 or 12/31/2014, in the years 1000 to 9999; if the day comes first, set date_format to dmy; " +
      "remove_ip: 'y' is not an IPv4 or IPv6 address",
  )
})

const columnsOfFields: Parameters<typeof makePlan>[0] = {
  columns: columnsOf(null, 'status', 1, 2, 3, 'email'),
  identity: { kind: 'email', column: 5, field_id: null },
  fields: [
    makeField({ id: 1, name: 'Born', field_type: 'date' }),
    makeField({ id: 2, name: 'Day', field_type: 'day_of_year' }),
    makeField({ id: 3, name: 'Boxes', field_type: 'select_multiple_checkboxes', options: ['a', 'b'] }),
  ],
}

t.test('the email column is found among others, and nothing chosen is no value', async (t) => {
  const reader = rowReader(makePlan(columnsOfFields), makeOptions())
  t.equal(reader.emailColumn, 5)
  t.same(reader.mappedFieldIds, [1, 2, 3])
  t.match(reader.read(['', '', '', '', '|', 'a@b.co']), { fields: [null, null, null] })
  t.match(reader.read(['', '', '', '', 'b,a', 'a@b.co']), { fields: [null, null, ['a', 'b']] })
  t.match(reader.read(['', '', '', '', 'c', 'a@b.co']), /Boxes: 'c' is not one or more of/)
})

t.test('dates in the other order are asked about, or counted', async (t) => {
  const mdy = rowReader(makePlan(columnsOfFields), makeOptions())
  const hint = '; if the day comes first, set date_format to dmy'
  t.equal(
    mdy.read(['', '', '31/12/2014', '31-12', '', 'a@b.co']),
    `Born: '31/12/2014' is not a date such as 2014-12-31 or 12/31/2014${hint}; ` +
      `Day: '31-12' is not a day of the year such as MM-DD, or a date${hint}`,
  )
  t.equal(
    mdy.read(['', '', '32/12/2014', '32-12', '', 'a@b.co']),
    "Born: '32/12/2014' is not a date such as 2014-12-31 or 12/31/2014; " +
      "Day: '32-12' is not a day of the year such as MM-DD, or a date",
  )
  t.match(mdy.read(['', '', '12/31/2014', '', '', 'a@b.co']), { remarks: null })

  const dmy = rowReader(
    makePlan(columnsOfFields),
    makeOptions({ file_format: { ...utf8Format, csv_skip_lines: 0, date_format: 'dmy' } }),
  )
  t.match(dmy.read(['', '', '12/31/2014', '12/13/2014', '', 'a@b.co']), {
    remarks: ['month_first_dates', 'month_first_dates'],
  })
  t.match(dmy.read(['', '', '31/12/2014', '1/2/2014', '', 'a@b.co']), { remarks: null })
  t.equal(
    dmy.read(['', '', '2014-13-01', '', '', 'a@b.co']),
    "Born: '2014-13-01' is not a date such as 2014-12-31 or 31/12/2014",
  )
})

t.test('a value in a reason is on one line and at most 60 characters long', async (t) => {
  const status = (text: string) => reader.read(['a@b.co', text])
  const expectation = 'is not one of active, bounced, unsubscribed, scomp, deactivated'
  const cases: [text: string, shown: string][] = [
    ['y'.repeat(60), `'${'y'.repeat(60)}'`],
    ['y'.repeat(61), `'${'y'.repeat(60)}...'`],
    ['a\0\u001f\n\u007fb\tc', "'a b c'"],
    [`${'y'.repeat(59)}\u{1f600}z`, `'${'y'.repeat(59)}...'`],
    [`${'y'.repeat(58)}\u{1f600}z`, `'${'y'.repeat(58)}\u{1f600}...'`],
    ['y'.repeat(65_535), `'${'y'.repeat(60)}...'`],
    ['y'.repeat(65_536), `'${'y'.repeat(60)}...' (65536 characters)`],
  ]
  for (const [text, shown] of cases) t.equal(status(text), `status: ${shown} ${expectation}`)
  t.equal(
    reader.read(['a@b.co', '', '', '', '', '', '', '', ' x ']),
    "the record has 9 cells, but the mapping has 8 columns; the first extra cell is 'x'",
  )
})

t.test("the reasons begin with a record's own problem, or with that of its identity", async (t) => {
  const cells = cellsOf([' x@y ', '', '', '', '', '11'])
  const problem = { kind: 'too_long', reason: 'the record is too long' } as const
  const identity = new TextBytes(Buffer.from('a@b.co'))
  const shown = (record: Parameters<typeof readRow>[1]) => reasonOr(readRow(realReader(plan, dmy), record))
  t.equal(shown({ problem, identity: null, cells }), problem.reason)
  t.equal(shown({ problem, identity, cells }), problem.reason)
  t.equal(shown({ problem: null, identity: null, cells }), "email: 'x@y' is not an email address")
  t.equal(
    shown({ problem: null, identity: null, cells: cellsOf([]) }),
    'email: the cell is blank instead of an email address',
  )
  t.equal(
    shown({ problem: null, identity, cells: cellsOf(['a@b.co', '', '', '', '', '11']) }),
    "Points: '11' is not an integer from 0 to 10",
  )
  t.match(shown({ problem: null, identity, cells: cellsOf(['a@b.co']) }), { email: 'a@b.co' })
})

t.test('only the address belongs in an email cell', async (t) => {
  const only = 'is not an email address: only the address belongs in the cell'
  for (const text of ['mailto:ann@x.co', 'MailTo:ann@x.co', 'mailto:Ann <ann@x.co>'])
    t.equal(reader.identityProblem([text]), `email: '${text}' ${only}, without "mailto:"`)
  for (const text of ['Ann <ann@x.co>', '<ann@x.co', 'ann@x.co>'])
    t.equal(reader.identityProblem([text]), `email: '${text}' ${only}, without a name and "<" or ">"`)
  const keyed = rowReader(
    makePlan({
      identity: { kind: 'text', column: 0, field_id: 3 },
      columns: columnsOf(3, 'email'),
      fields: [makeField({ id: 3, name: 'Number', required: true })],
    }),
    makeOptions(),
  )
  t.equal(keyed.read(['K1', 'mailto:a@b.co']), `email: 'mailto:a@b.co' ${only}, without "mailto:"`)
  t.match(keyed.read(['mailto:K1', 'mail@to.co']), { fields: ['mailto:K1'] }, 'any other cell may begin so')
  t.equal(keyed.identityProblem(['<']), "Number: '<' is not a text of 0 to 65535 characters")
})

t.test('a row has one fault: of its identity, else of the record, else of its first column', async (t) => {
  const fault = (
    cells: string[],
    identity: string | null,
    kind?: 'encoding' | 'nul' | 'too_long' | 'unterminated',
  ) => {
    const problem = kind === undefined ? null : { kind, reason: '' }
    const key = identity === null ? null : new TextBytes(Buffer.from(identity))
    const record = { problem, identity: key, cells: cellsOf(cells) }
    const row = readRow(realReader(plan, makeOptions()), record)
    return row instanceof RowFailure ? row.fault : null
  }
  const cell = (kind: string, column: number) => ({ kind, column, field_id: null })
  t.same(fault(['x', 'gone'], null), cell('wrong_value', 0))
  t.same(fault(['', 'gone'], null), cell('blank', 0))
  t.same(fault(['mailto:a@b.co'], null), cell('mailto', 0))
  t.same(fault(['A <a@b.co>'], null), cell('angle_bracket', 0))
  t.same(fault(['A;a@b.co'], null), cell('separator', 0))
  t.same(fault(['a@b.co', 'gone', '31/12/2014', '', '', '11'], 'a@b.co'), cell('wrong_value', 1))
  t.same(fault(['a@b.co', '', '31/12/2014', '', '', '11'], 'a@b.co'), cell('day_first', 2))
  t.same(fault(['a@b.co', '', '', '', '', '11'], 'a@b.co'), cell('wrong_value', 5))
  const surplus = ['a@b.co', 'gone', '', '', '', '', '', '', 'x']
  t.same(fault(surplus, 'a@b.co'), wholeFault('surplus_cells'))
  t.same(fault(['x', ...surplus.slice(1)], null), cell('wrong_value', 0))
  for (const kind of ['encoding', 'nul', 'too_long', 'unterminated'] as const)
    t.same(fault(['a@b.co', 'gone'], 'a@b.co', kind), wholeFault(kind))
  t.same(fault(['x', '\0'], null, 'nul'), cell('wrong_value', 0), 'the identity is sound text, and wrong')
  t.same(fault(['', '\ufffd'], null, 'encoding'), cell('blank', 0))
  t.same(fault(['x\0'], null, 'nul'), wholeFault('nul'), 'the identity itself has the NUL')
  t.same(fault(['\ufffd@b.co'], null, 'encoding'), wholeFault('encoding'))
  t.same(fault(['"x'], null, 'unterminated'), wholeFault('unterminated'))
  t.same(fault(['x'], null, 'too_long'), wholeFault('too_long'), 'only the beginning is known')
})

t.test('reasons say what is wrong without a value, and examples are cut', async (t) => {
  t.equal(cellReason('blank', 'yes or no'), 'the cell is blank instead of yes or no')
  t.equal(cellReason('wrong_value', 'yes or no'), 'not yes or no')
  t.equal(cellReason('day_first', 'a date'), 'not a date; if the day comes first, set date_format to dmy')
  t.equal(
    cellReason('mailto', ''),
    'not an email address: only the address belongs in the cell, without "mailto:"',
  )
  t.equal(cellReason('not_clearable', ''), "the cell is blank, and a required field can't be cleared")
  t.equal(columnExpectation({ kind: 'built_in', name: 'confirmed' }, plan, dmy), 'yes or no')
  t.equal(columnExpectation({ kind: 'field', field_id: 7 }, plan, dmy), 'an integer from 0 to 10')
  const smile = '\u{1f600}'
  for (const [cell, example] of [
    ['', ''],
    [' x ', ' x '],
    ['y'.repeat(60), 'y'.repeat(60)],
    ['y'.repeat(61), `${'y'.repeat(59)}…`],
    [smile.repeat(60), smile.repeat(60)],
    [smile.repeat(61), `${smile.repeat(59)}…`],
    [`${smile.repeat(59)}yy`, `${smile.repeat(59)}…`],
    ['y'.repeat(1_000_000), `${'y'.repeat(59)}…`],
  ] as const)
    t.equal(exampleOf(cell), example)
})
