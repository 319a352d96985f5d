import { parse } from 'csv-parse/sync'
import t from 'tap'
import { openDatabase } from '../../../shared/runtime/database.ts'
import { idsOfImport } from '../../../shared/contract/schemas/import.ts'
import { writeAlone } from '../../../control-plane/store/write-subscriber.ts'
import { SubscriberWrites } from '../../../control-plane/store/subscribers-together.ts'
import { watchChunks } from '../../helpers/watch-chunks.ts'
import { lockRow } from '../../helpers/locked-row.ts'
import { countsOf, createList, importEnd, importText, until, type Json } from '../../helpers/service.ts'
import { additionOf, subscriberDocument } from '../../helpers/subscriber-document.ts'
import { service } from './service.ts'

const { call, collections, get, post } = service

const log = async (view: Json, kind: string) =>
  (await call('GET', `/subscriber_imports/${view.id}/logs/${kind}`)).text
const subscribersOf = (listId: number) =>
  collections.subscribers.find({ mailing_list_id: listId }).sort({ _id: 1 }).toArray()

/** The striped counters against a plain recount. */
async function checkCounts(listId: number): Promise<void> {
  const statuses = ['active', 'bounced', 'unsubscribed', 'scomp', 'deactivated'] as const
  const counted = await collections.subscribers
    .aggregate<{ _id: string; n: number }>([
      { $match: { mailing_list_id: listId } },
      { $group: { _id: '$status', n: { $sum: 1 } } },
    ])
    .toArray()
  const stripes = await collections.subscriberCounts.find({ mailing_list_id: listId }).toArray()
  for (const status of statuses) {
    const sum = stripes.reduce((total, stripe) => total + stripe[status], 0)
    t.equal(
      sum,
      counted.find((group) => group._id === status)?.n ?? 0,
      `the counters of list ${listId} say as many ${status} as there are`,
    )
  }
}

const fields = [
  { name: 'Name', field_type: 'text' },
  { name: 'Points', field_type: 'number', default: 5 },
  { name: 'Plan', field_type: 'select_single_dropdown', options: ['Free', 'Team'], required: true },
]
const mapping = { column_mapping: ['email', 'Name', 'Points', 'Plan'] }

t.test('an import counts added, failed and duplicate rows, and logs them', async (t) => {
  const list = await createList(service, fields)
  const content = [
    'E-Mail,Name,Points,Plan',
    ' Bob@Example.com , Bob ,7,team',
    'ann@example.com,"Ann, the ""first""",,Free',
    'BOB@example.COM,Bobby,8,Free',
    'bad address,X,1,Free',
    'carl@example.com,"two\nlines",x,Free',
    'dora@example.com,Dora,1,',
    'ann@example.com,again,notanumber,none',
    'eve@example.com,Eve,1,Free,,',
    'fay@example.com,Fay,1,Free,surplus',
    'gus@example.com',
    '"hal@example.com" ,"H"al,1,Free',
  ].join('\n')
  const view = await importText(service, list.id, content, {
    ...mapping,
    default_custom_fields: { Name: 'nobody' },
  })
  t.match(view, { state: 'finished', stats: { number_of_records: 11, records_imported: 11 } })
  t.same(countsOf(view), { added: 4, failed: 5, skipped_duplicate: 2 })
  t.same(
    (await subscribersOf(list.id)).map(({ _id, email, status, custom_fields }) => [
      _id,
      email,
      status,
      Object.values(custom_fields),
    ]),
    [
      [`${list.id}:ann@example.com`, 'ann@example.com', 'active', ['Ann, the "first"', 5, 'Free']],
      [`${list.id}:bob@example.com`, 'Bob@Example.com', 'active', ['Bob', 7, 'Team']],
      [`${list.id}:eve@example.com`, 'eve@example.com', 'active', ['Eve', 1, 'Free']],
      [`${list.id}:hal@example.com`, 'hal@example.com', 'active', ['"H"al', 1, 'Free']],
    ],
  )
  t.equal(await log(view, 'added'), 'ann@example.com\nBob@Example.com\neve@example.com\nhal@example.com\n')
  t.equal(await log(view, 'skipped_duplicate'), 'ann@example.com\nBOB@example.COM\n')
  t.equal(
    await log(view, 'failed'),
    [
      'E-Mail,Name,Points,Plan,error',
      "bad address,X,1,Free,email: 'bad address' is not an email address",
      'carl@example.com,"two\nlines",x,Free,Points: \'x\' is not an integer',
      'dora@example.com,Dora,1,,"Plan: a new subscriber needs a value, and neither the file nor a default has one"',
      'fay@example.com,Fay,1,Free,surplus,"the record has 5 cells, but the mapping has 4 columns; the first extra cell is \'surplus\'"',
      'gus@example.com,,,,"Plan: a new subscriber needs a value, and neither the file nor a default has one"',
      '',
    ].join('\n'),
  )
  const failed = await call('GET', `/subscriber_imports/${view.id}/logs/failed`)
  t.equal(failed.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.match(failed.headers.get('content-disposition'), /^attachment/)
  t.equal(
    (await call('GET', `/subscriber_imports/${view.id}/logs/added`)).headers.get('content-type'),
    'text/plain; charset=utf-8',
  )
  t.match((await call('GET', `/subscriber_imports/${view.id}/logs/updated`)).body, {
    error_code: 'not_found',
  })
  await checkCounts(list.id)

  const mended = (await log(view, 'failed'))
    .replace('bad address', 'good@example.com')
    .replace(',x,Free', ',1,Free')
    .replace('Dora,1,,', 'Dora,1,Team,')
    .replace('surplus', '')
    .replace('gus@example.com,,,', 'gus@example.com,,,Team')
  const again = await importText(service, list.id, mended, {
    column_mapping: [...mapping.column_mapping, null],
  })
  t.same(countsOf(again), { added: 4, failed: 1 }, 'the failed log imports again after a fix')
})

t.test(
  'a failed row occupies its own length in the database, however many columns the mapping has',
  async (t) => {
    const list = await createList(service)
    const view = await importText(service, list.id, 'x\ny,"a, b"\n'.repeat(2_000), {
      column_mapping: ['email', ...Array<null>(1_999).fill(null)],
      file_format: { csv_has_headers: false },
    })
    t.match(view, { state: 'finished', stats: { number_of_records: 4_000 } })
    const [{ bytes }] = (await collections.failures
      .aggregate([
        { $match: { _id: idsOfImport(view.id) } },
        { $group: { _id: null, bytes: { $sum: { $bsonSize: '$$ROOT' } } } },
      ])
      .toArray()) as [{ bytes: number }]
    t.ok(bytes < 4_000 * 150, `4,000 rows take ${bytes} bytes`)
    const lines = (await log(view, 'failed')).split('\n')
    const blanks = (count: number) => ','.repeat(count)
    t.same(lines.slice(0, 2), [
      `x${blanks(2_000)}email: 'x' is not an email address`,
      `y,"a, b"${blanks(1_999)}email: 'y' is not an email address`,
    ])
    t.equal(lines.length, 4_001)
  },
)

t.test('a failed log can be asked for without formulas', async (t) => {
  const list = await createList(service, fields.slice(0, 1))
  const view = await importText(
    service,
    list.id,
    [
      'E-Mail;=1+1',
      '=cmd|calc;Ann',
      "'+49;1';@SUM(1)",
      '-x;plain = 1',
      "' \n=1';\uff1d1",
      "it's;'''=1'",
    ].join('\n'),
    {
      column_mapping: ['email', 'Name'],
      file_format: { csv_field_separator: ';', csv_field_enclosure: "'" },
    },
  )
  const logAt = async (query: string) =>
    (await call('GET', `/subscriber_imports/${view.id}/logs/failed${query}`)).text
  const typed = await logAt('')
  t.equal(await logAt('?safe=false'), typed)
  t.equal(await logAt('?safe=1'), await logAt('?safe=true'))
  const cells = (text: string): string[][] =>
    parse(text, { delimiter: ';', quote: "'", escape: "'", record_delimiter: '\n' })
  const isFormula = (cell: string) => /^\s*[=+\-@\uff1d]/.test(cell)
  t.equal(cells(typed).flat().filter(isFormula).length, 7, 'as they were typed')
  t.same(
    cells(await logAt('?safe=true')),
    cells(typed).map((record) => record.map((cell) => (isFormula(cell) ? `'${cell}` : cell))),
  )
  t.match((await call('GET', `/subscriber_imports/${view.id}/logs/failed?safe=yes`)).body, {
    error_code: 'invalid_request',
  })
})

t.test('overwriting depends on the status and on the kind of value', async (t) => {
  const list = await createList(service, fields.slice(0, 2))
  const two = ['email', 'Name']
  await importText(
    service,
    list.id,
    'email,Name,status\nactive@x.co,A,active\nunsub@x.co,U,unsubscribed\nbounced@x.co,B,bounced\nscomp@x.co,S,scomp\ndeact@x.co,D,deactivated',
    { column_mapping: ['email', 'Name', 'status'] },
  )
  const rows =
    'email,Name\nactive@x.co,new\nunsub@x.co,new\nbounced@x.co,new\nscomp@x.co,new\ndeact@x.co,new\nfresh@x.co,new'
  t.same(countsOf(await importText(service, list.id, rows, { column_mapping: two })), {
    added: 1,
    skipped_overwrite: 5,
  })
  t.same(countsOf(await importText(service, list.id, rows, { column_mapping: two, overwrite: true })), {
    updated: 2,
    skipped_unsubscribed: 1,
    skipped_bounced: 1,
    skipped_scomp: 1,
    skipped_deactivated: 1,
  })
  const every = { active: false, unsubscribed: true, bounced: true, deactivated: true, scomp: true }
  t.same(
    countsOf(
      await importText(service, list.id, rows, {
        column_mapping: two,
        overwrite: true,
        overwrite_when_status: every,
      }),
    ),
    { updated: 4, skipped_active: 2 },
  )
  const revived = await importText(service, list.id, 'email,status\nunsub@x.co,active\nactive@x.co,bounced', {
    column_mapping: ['email', 'status'],
    overwrite: true,
    overwrite_what: { status: true },
    overwrite_when_status: { ...every, active: true },
  })
  t.same(countsOf(revived), { updated: 2 })
  t.match(await collections.subscribers.findOne({ _id: `${list.id}:unsub@x.co` }), {
    status: 'active',
    remove_time: undefined,
  })
  t.match(await collections.subscribers.findOne({ _id: `${list.id}:active@x.co` }), {
    status: 'bounced',
    remove_time: Date,
  })
  await checkCounts(list.id)
})

t.test('addresses, dates and numbers are stored as common systems mean them, with warnings', async (t) => {
  const fields = [
    { name: 'Born', field_type: 'date' },
    { name: 'Points', field_type: 'number' },
  ]
  const list = await createList(service, fields)
  const rows = [
    ['email', 'joined', 'born', 'points'],
    ['bob@example.com\u200b', '2026-11-27 10:15:00+00', '01.05.1980', '5.0'],
    ['ann@exam\u00adple.com', '"11/27/2026, 10:15:00\u202fAM"', '0000-00-00', '="007"'],
    ['Ann|cy@example.com', '2026-11-27 10:15:00 AM', '0/0/00', ''],
    ['dora@B\u00dcCHER.example', 'NULL', '12-Dec-1975', '1000.00'],
    ['SMTP:eve@example.com', '', '', ''],
  ]
  const view = await importText(service, list.id, rows.map((row) => row.join(',')).join('\n'), {
    column_mapping: ['email', 'subscribe_time', 'Born', 'Points'],
  })
  t.match(countsOf(view), { added: 4, failed: 1 })
  const stored = await subscribersOf(list.id)
  const values = stored.map(({ email, custom_fields }) => [email, ...Object.values(custom_fields)])
  t.strictSame(values.toSorted(), [
    ['Ann|cy@example.com'],
    ['ann@example.com', 7],
    ['bob@example.com', '1980-05-01', 5],
    ['dora@b\u00fccher.example', '1975-12-12', 1000],
  ])
  const times = stored.filter(
    ({ subscribe_time }) => subscribe_time.toISOString() === '2026-11-27T10:15:00.000Z',
  )
  t.equal(times.length, 3)
  t.strictSame(view.warnings, [
    '3 cells have a mark for no date, such as 0000-00-00 or NULL, and were read as blank',
    'invisible characters were removed from 2 email addresses: check where the file comes from',
    '1 email address with |, { or } before the @ was imported: check that the cells hold only addresses, and no names or unfilled templates',
  ])
  t.match(await log(view, 'failed'), /belong to a label or separate cells; is csv_field_separator right/)
})

t.test('dates that can only have the month first are read under dmy, and counted in a warning', async (t) => {
  const list = await createList(service, [
    { name: 'Day', field_type: 'date' },
    { name: 'Birthday', field_type: 'day_of_year' },
  ])
  const rows = ['31/12/2014,1-2,', '12-31-2014,12/24/1980,', '02-13-2014,,1/13/2020 1:05 pm', '13-13-2014,,']
  const content = ['email,Day,Birthday,subscribe_time', ...rows.map((row, i) => `d${i}@x.co,${row}`)].join(
    '\n',
  )
  const column_mapping = ['email', 'Day', 'Birthday', 'subscribe_time']
  const dayFirst = await importText(service, list.id, content, {
    column_mapping,
    file_format: { date_format: 'dmy' },
  })
  t.same(countsOf(dayFirst), { added: 3, failed: 1 })
  t.equal(dayFirst.warnings.length, 1)
  t.match(dayFirst.warnings[0], /^4 dates have a second part above 12 .* date_format is dmy/)
  const monthFirst = await importText(service, list.id, content, { column_mapping, dry_run: true })
  t.same(countsOf(monthFirst), { skipped_overwrite: 2, failed: 2 })
  t.same(monthFirst.warnings, [])
  const failed = await log(monthFirst, 'failed')
  t.match(
    failed,
    /'31\/12\/2014' is not a date such as 2014-12-31 or 12\/31\/2014; if the day comes first, set date_format to dmy/,
  )
  t.match(
    failed,
    /'13-13-2014' is not a date such as 2014-12-31 or 12\/31\/2014"?\n/,
    'no order makes it one',
  )
})

t.test(
  'an active row has no removal, and an unconfirmed one no confirm_time, whatever it says',
  async (t) => {
    const list = await createList(service, [], { has_confirmed: true })
    const header = 'email,status,remove_time,remove_ip,confirmed,confirm_time'
    const column_mapping = header.split(',')
    const at = '2020-01-02 10:00,192.0.2.1'
    await importText(
      service,
      list.id,
      `${header}\na@x.co,active,${at},no,2020-01-02\nb@x.co,bounced,${at},yes,2020-01-02`,
      { column_mapping },
    )
    const of = (name: string) => collections.subscribers.findOne({ _id: `${list.id}:${name}@x.co` })
    t.match(await of('a'), { remove_time: undefined, remove_ip: undefined, confirm_time: undefined })
    t.match(await of('b'), { remove_time: Date, remove_ip: '192.0.2.1', confirm_time: Date })
    await importText(service, list.id, `${header}\na@x.co,,${at},,2020-01-02\nb@x.co,,,,no,2020-01-03`, {
      column_mapping,
      overwrite: true,
      overwrite_what: { status: true, confirmed: true },
      overwrite_when_status: { active: true, bounced: true },
    })
    t.match(await of('a'), { remove_time: undefined, remove_ip: undefined, confirm_time: undefined })
    t.match(await of('b'), { confirmed: false, confirm_time: undefined })
  },
)

t.test('an enclosure that is not closed is reported with the line on which it opens', async (t) => {
  const list = await createList(service, fields.slice(0, 1))
  const content = 'email,Name,Points\na@x.co,"one\r\ntwo\rthree","open\nb@x.co,fine,1'
  const view = await importText(service, list.id, content, { column_mapping: ['email', 'Name', null] })
  t.same(countsOf(view), { added: 1, failed: 1 })
  // The record begins on line 2, and its second cell ends on line 4.
  t.match(await log(view, 'failed'), /"unterminated enclosure, line 4"|,unterminated enclosure, line 4/)
})

t.test('a header row that contains an address causes a warning', async (t) => {
  const list = await createList(service)
  const view = await importText(service, list.id, 'first@x.co\nsecond@x.co')
  t.same(countsOf(view), { added: 1 })
  t.match(view.warnings, [/^the header row holds an email address \(first@x.co\)/])
  t.same((await importText(service, list.id, 'e-mail@\nthird@x.co')).warnings, [])
  const unmapped = { column_mapping: [null, 'email'] }
  t.match((await importText(service, list.id, 'a@b.co,ab\nx,c@c.cc', unmapped)).warnings, [
    /^the header row holds an email address \(a@b.co\)/,
  ])
})

const valuesTooLarge = "the subscriber's custom fields would hold more than 4194304 bytes together"

t.test('a row fails whose subscriber would have more than 4 MiB in its custom fields', async (t) => {
  // 16 of these fit.
  const long = '𝄞'.repeat(65_500)
  const list = await createList(service, [
    ...Array.from({ length: 15 }, (_, i) => ({ name: `F${i}`, field_type: 'text', default: long })),
    { name: 'A', field_type: 'text' },
    { name: 'B', field_type: 'text' },
  ])
  const options = { column_mapping: ['email', 'A', 'B'], overwrite: true }
  const importRows = (rows: string[], more = {}) =>
    importText(service, list.id, ['email,A,B', ...rows].join('\n'), { ...options, ...more })
  const expect = async (rows: string[], counts: Record<string, number>) => {
    t.same(countsOf(await importRows(rows, { dry_run: true })), counts, 'a dry run')
    const inspected = await post(`/mailing_lists/${list.id}/subscriber_imports/inspect`, {
      subscriber_import: {
        ...options,
        file_source: { type: 'json', content: ['email,A,B', ...rows].join('\n') },
      },
    })
    t.match(
      inspected.records.find(({ result }: Json) => result === 'failed'),
      { error: valuesTooLarge },
    )
    const view = await importRows(rows)
    t.same(countsOf(view), counts)
    t.ok((await log(view, 'failed')).includes(`,${valuesTooLarge}`))
  }
  await expect([`a@x.co,${long},${long}`, 'b@x.co,,', `c@x.co,${long},`], { added: 2, failed: 1 })
  await expect([`b@x.co,${long},${long}`, 'c@x.co,short,'], { updated: 1, failed: 1 })
  await expect([`b@x.co,${long},`, `c@x.co,${long},${long}`], { updated: 1, failed: 1 })

  const [b] = (await get(`/mailing_lists/${list.id}/subscribers/b@x.co`)) as Json[]
  const put = async (custom_fields: object) =>
    (await call('PUT', `/mailing_lists/${list.id}/subscribers/${b.id}`, { subscriber: { custom_fields } }))
      .body
  const refusal = { error_code: 'validation_failed', error_message: valuesTooLarge }
  t.match(await put({ B: long }), refusal)
  t.match(await put({ A: null, B: long }), { success: true }, 'in place of another')
  const created = {
    subscriber: {
      email: 'd@x.co',
      apply_custom_field_defaults: true,
      custom_fields: { A: long, B: long },
    },
  }
  t.match((await call('POST', `/mailing_lists/${list.id}/subscribers`, created)).body, refusal)
})

t.test('a row or a request fails that the database refuses for the size of its subscriber', async (t) => {
  const list = await createList(service, fields.slice(0, 1))
  const full = await post(`/mailing_lists/${list.id}/subscribers`, { subscriber: { email: 'full@x.co' } })
  const custom_fields = { 999_999_999: 'x'.repeat(16 * 1024 * 1024 - 300) }
  await collections.subscribers.updateOne({ id: full.id }, { $set: { custom_fields } })
  const rows = Array.from({ length: 50 }, (_, i) => `s${i}@x.co,${'y'.repeat(2_000)}`)
  const content = ['email,Name', ...rows, `full@x.co,${'y'.repeat(2_000)}`].join('\n')
  const view = await importText(service, list.id, content, {
    column_mapping: ['email', 'Name'],
    overwrite: true,
  })
  t.same(countsOf(view), { added: 50, failed: 1 })
  t.ok((await log(view, 'failed')).includes(valuesTooLarge))
  await checkCounts(list.id)

  const path = `/mailing_lists/${list.id}/subscribers/${full.id}`
  const refused = await call('PUT', path, {
    subscriber: {
      email: `${'e'.repeat(200)}@${'x'.repeat(60)}.${'y'.repeat(60)}.${'z'.repeat(60)}.co`,
      custom_fields: {},
    },
  })
  t.match(refused.body, { success: false, error_code: 'validation_failed' })
  t.notMatch(refused.body.error_message, /full@x/)
})

t.test('a dry run has the same counts and logs and writes nothing', async (t) => {
  const list = await createList(service, fields.slice(0, 1))
  await importText(service, list.id, 'email\na@x.co\nb@x.co')
  const before = await subscribersOf(list.id)
  const content = 'email,Name\na@x.co,new\nc@x.co,C\nbad\nc@x.co,again'
  const options = {
    column_mapping: ['email', 'Name'],
    overwrite: true,
    deactivate_subscribers_not_in_import: true,
  }
  const dry = await importText(service, list.id, content, { ...options, dry_run: true })
  t.same(await subscribersOf(list.id), before)
  const wet = await importText(service, list.id, content, options)
  t.same(countsOf(dry), countsOf(wet))
  for (const kind of ['added', 'updated', 'failed', 'skipped_duplicate', 'deactivated'])
    t.equal(await log(dry, kind), await log(wet, kind), kind)
  t.same(countsOf(wet), { added: 1, updated: 1, failed: 1, skipped_duplicate: 1, deactivated: 1 })
  t.equal(await log(wet, 'deactivated'), 'b@x.co\n')
  await checkCounts(list.id)
})

t.test('a file of addresses unsubscribes them, where the request says so', async (t) => {
  const list = await createList(service)
  await importText(service, list.id, 'email\nann@x.co\nbob@x.co')
  const view = await importText(service, list.id, 'email\nann@x.co\nnew@x.co', {
    column_mapping: ['email'],
    overwrite: true,
    overwrite_what: { status: true },
    subscriber_defaults: { status: 'unsubscribed' },
  })
  t.match(
    { counts: countsOf(view), warnings: view.warnings },
    { counts: { updated: 1, added: 1 }, warnings: [] },
  )
  const after = (await subscribersOf(list.id)).map(({ email, status, remove_time }) => [
    email,
    status,
    remove_time instanceof Date,
  ])
  t.same(after, [
    ['ann@x.co', 'unsubscribed', true],
    ['bob@x.co', 'active', false],
    ['new@x.co', 'unsubscribed', true],
  ])
  await checkCounts(list.id)
})

t.test(
  'consent decides who becomes active, and a header of it that is not mapped is a warning',
  async (t) => {
    const content = 'Email,Accepts Email Marketing\nann@x.co,yes\nbob@x.co,no\ncyd@x.co,\ndan@x.co,maybe'
    const list = await createList(service)
    const mapped = await importText(service, list.id, content, { column_mapping: ['email', 'consent'] })
    t.match(
      { counts: countsOf(mapped), warnings: mapped.warnings },
      { counts: { added: 3, failed: 1 }, warnings: [] },
    )
    t.same(
      (await subscribersOf(list.id)).map(({ email, status }) => `${email} ${status}`),
      ['ann@x.co active', 'bob@x.co unsubscribed', 'cyd@x.co active'],
    )
    const other = await createList(service)
    const ignored = await importText(service, other.id, content, { column_mapping: ['email', null] })
    t.match(ignored.warnings, [/^column 2 "Accepts Email Marketing" speaks of consent .* is not mapped/])

    const older = await createList(service, [{ name: 'Agreed', field_type: 'text' }])
    await collections.customFields.updateOne(
      { mailing_list_id: older.id },
      { $set: { name: 'Consent', name_key: 'consent' } },
    )
    await importText(service, older.id, content, { column_mapping: ['email', 'consent'] })
    const [, bob] = await subscribersOf(older.id)
    t.match(bob, { status: 'active' }, 'a custom field that had the name before keeps it')
    t.same(Object.values(bob!.custom_fields), ['no'])
  },
)

t.test('an import that is about to deactivate more than half of a list warns of it', async (t) => {
  const list = await createList(service)
  const options = { column_mapping: ['email'], deactivate_subscribers_not_in_import: true }
  await importText(service, list.id, 'email\na@x.co\nb@x.co\nc@x.co\nd@x.co')
  for (const isDryRun of [true, false]) {
    const other = await createList(service)
    await importText(service, other.id, 'email\na@x.co\nb@x.co\nc@x.co\nd@x.co')
    const half = await importText(service, other.id, 'email\na@x.co\nb@x.co', {
      ...options,
      dry_run: isDryRun,
    })
    t.match({ counts: countsOf(half), warnings: half.warnings }, { counts: { deactivated: 2 }, warnings: [] })
  }
  const threeQuarters = await importText(service, list.id, 'email\na@x.co', options)
  t.match(countsOf(threeQuarters), { deactivated: 3 })
  t.match(threeQuarters.warnings, [
    /^more than half of the 4 active subscribers .*deactivate_subscribers_not_in_import/,
  ])
})

t.test('a subscriber whose addition commits after an import began is not deactivated by it', async (t) => {
  const database = await openDatabase({
    uri: service.settings['MONGODB_URI']!,
    name: service.settings['MONGODB_DATABASE']!,
  })
  t.teardown(() => database.close())
  const list = await createList(service)
  await importText(service, list.id, 'email\nold@x.co\nz@x.co')
  const documentOf = async (email: string) =>
    subscriberDocument(list.id, email, await database.ids.allocate('subscriber'))
  // Drawn before the import begins, as all ids of these.
  const [alone, together, later] = [
    await documentOf('alone@x.co'),
    await documentOf('together@x.co'),
    await documentOf('later@x.co'),
  ]
  let resume: () => void = () => undefined
  const suspended = new Promise<void>((resolve) => (resume = resolve))
  let insertion: Promise<{ outcome: string }> | undefined
  // The snapshot is read, and the transaction waits here.
  await new Promise<void>((resolve) => {
    const alongside = async () => {
      resolve()
      await suspended
      return undefined
    }
    insertion = writeAlone(database, additionOf(1, alone, { alongside }))
  })
  const letGo = await lockRow(service, `${list.id}:z@x.co`)
  const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], overwrite: true, deactivate_subscribers_not_in_import: true },
      file_source: { type: 'json', content: 'email\nz@x.co' },
    },
  })
  await until(
    'its beginning',
    () => collections.imports.findOne({ _id: id }),
    (document) => document!.plan !== null,
  )
  resume()
  t.equal((await insertion)?.outcome, 'done')
  t.equal((await writeAlone(database, additionOf(1, later))).outcome, 'done')
  const { revision } = (await collections.mailingLists.findOne({ _id: list.id }))!
  const plan = additionOf(1, together, { listRevision: revision })
  const shared = await new SubscriberWrites(database).write(plan)
  t.equal(shared.outcome, 'done')
  await letGo()
  t.match(countsOf(await importEnd(service, id)), { deactivated: 1 })
  t.same(
    (await subscribersOf(list.id)).map(({ email, status }) => [email, status]),
    [
      ['alone@x.co', 'active'],
      ['later@x.co', 'active'],
      ['old@x.co', 'deactivated'],
      ['together@x.co', 'active'],
      ['z@x.co', 'active'],
    ],
  )
  await checkCounts(list.id)
  t.same(
    countsOf(
      await importText(service, list.id, 'email\nz@x.co', { deactivate_subscribers_not_in_import: true }),
    ),
    { deactivated: 3, skipped_overwrite: 1 },
    'the next import does deactivate them',
  )
})

t.test(
  'a subscriber that was deleted and added again while an import deactivates stays active',
  async (t) => {
    const list = await createList(service)
    await importText(service, list.id, 'email\na@x.co\nb@x.co\nc@x.co\nz@x.co')
    const letGo = await lockRow(service, `${list.id}:b@x.co`)
    const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        ...{ column_mapping: ['email'], deactivate_subscribers_not_in_import: true },
        file_source: { type: 'json', content: 'email\nz@x.co' },
      },
    })
    // By then the import has read all absent subscribers.
    await until(
      'the deactivation of the first one',
      () => get(`/subscriber_imports/${id}`),
      (view) => view.stats.subscribers.deactivated > 0,
    )
    t.equal((await call('DELETE', `/mailing_lists/${list.id}/subscribers/c@x.co`)).status, 200)
    await post(`/mailing_lists/${list.id}/subscribers`, { subscriber: { email: 'c@x.co' } })
    await letGo()
    t.same(countsOf(await importEnd(service, id)), { deactivated: 2, skipped_overwrite: 1 })
    t.same(
      (await subscribersOf(list.id)).map(({ email, status }) => [email, status]),
      [
        ['a@x.co', 'deactivated'],
        ['b@x.co', 'deactivated'],
        ['c@x.co', 'active'],
        ['z@x.co', 'active'],
      ],
    )
  },
)

t.test('a row over 1 MiB has an identity only in its first 64 KiB', async (t) => {
  const list = await createList(service, fields.slice(0, 1))
  const long = 'y'.repeat(1_100_000)
  const view = await importText(
    service,
    list.id,
    `x,ann@example.com,\nx,Ann@example.com,${long}\n${long},ann@example.com,\n`,
    { column_mapping: [null, 'email', null], file_format: { csv_has_headers: false } },
  )
  t.same(countsOf(view), { added: 1, skipped_duplicate: 1, failed: 1 })
  t.equal(await log(view, 'skipped_duplicate'), 'Ann@example.com\n')
})

t.test('a list with an alternate primary key', async (t) => {
  const list = await createList(service, [{ name: 'Member', field_type: 'number', required: true }])
  const [field] = await get(`/mailing_lists/${list.id}/custom_fields`)
  await call('PUT', `/mailing_lists/${list.id}`, { mailing_list: { primary_key_custom_field_id: field.id } })
  const options = { column_mapping: ['Member', 'email'], overwrite: true }
  const view = await importText(
    service,
    list.id,
    'Member,email\n007,a@x.co\n8,a@x.co\n7,dup@x.co\nx,b@x.co\n9,\n',
    options,
  )
  t.same(countsOf(view), { added: 2, failed: 2, skipped_duplicate: 1 })
  t.same(
    (await subscribersOf(list.id)).map(({ _id, email, email_key }) => [_id, email, email_key]),
    [
      [`${list.id}:7`, 'a@x.co', 'a@x.co'],
      [`${list.id}:8`, 'a@x.co', 'a@x.co'],
    ],
  )
  t.same(countsOf(await importText(service, list.id, 'Member,email\n7,New@X.co', options)), { updated: 1 })
  t.match(await collections.subscribers.findOne({ _id: `${list.id}:7` }), {
    email: 'New@X.co',
    email_key: 'new@x.co',
  })
  // A duplicate row's email is not checked, and each row has one line of the log all the same.
  const duplicates = ['d1@x.co', '"d2\n@x.co"', '"d3\r@x.co"', '"d4\r\n@x.co"']
  const rows = ['a@x.co', ...duplicates].map((email) => `6,${email}\n`)
  const again = await importText(service, list.id, `Member,email\n${rows.join('')}`, options)
  t.same(countsOf(again), { added: 1, skipped_duplicate: 4 })
  t.same(
    (await log(again, 'skipped_duplicate')).split(/\r\n|\n|\r/).map((line) => line.slice(0, 2)),
    ['d1', 'd2', 'd3', 'd4', ''],
  )
})

t.test(
  'a number that is the key is one identity in each spelling, in a file of several chunks too',
  async (t) => {
    const list = await createList(service, [{ name: 'Member', field_type: 'number', required: true }])
    const [field] = await get(`/mailing_lists/${list.id}/custom_fields`)
    await call('PUT', `/mailing_lists/${list.id}`, {
      mailing_list: { primary_key_custom_field_id: field.id },
    })
    const members = Array.from({ length: 20_000 }, (_, i) => i + 1)
    const again = members.filter((member) => member % 500 === 0)
    const rows = [...members, ...again.map((member) => `00${member}`)].map((member) => `${member},m@x.co`)
    const untilMoreChunksThan = await watchChunks(t, service)
    const view = await importText(service, list.id, rows.join('\n'), {
      ...{ column_mapping: ['Member', 'email'], file_format: { csv_has_headers: false } },
    })
    t.same(countsOf(view), { added: 20_000, skipped_duplicate: 40 })
    await untilMoreChunksThan(1)
  },
)

t.test('files as people have them', async (t) => {
  const list = await createList(service, fields.slice(0, 1))
  const variants: [string, Json][] = [
    ['\ufeff"email";Name\r\nv1@x.co;"a;b"\r\n', { file_format: { csv_field_separator: ';' } }],
    [
      "email\tName\rv2@x.co\t'it''s'\r",
      { file_format: { csv_field_separator: '\t', csv_field_enclosure: "'" } },
    ],
    ['v3@x.co,no header', { file_format: { csv_has_headers: false } }],
    ['\n  \nemail,Name\n\n\nv4@x.co,x\r\n\t\n', {}],
    ['email,Name\nv5@x.co,"=1+1"\nV5@X.CO,"dup"', {}],
  ]
  for (const [content, options] of variants) {
    const view = await importText(service, list.id, content, {
      column_mapping: ['email', 'Name'],
      ...options,
    })
    t.match(countsOf(view), { added: 1 }, JSON.stringify(content))
  }
  t.same(
    (await subscribersOf(list.id)).map((subscriber) => Object.values(subscriber.custom_fields)[0]),
    ['a;b', "it's", 'no header', 'x', '=1+1'],
  )
})

t.test('an import without a record, or without a good one', async (t) => {
  const list = await createList(service)
  t.match(await importText(service, list.id, 'email\n'), {
    state: 'finished',
    stats: { number_of_records: 0, records_imported: 0 },
  })
  t.match(await importText(service, list.id, 'email\nx\ny'), {
    state: 'finished',
    stats: { number_of_records: 2, records_imported: 2, subscribers: { failed: 2 } },
  })
  await importText(service, list.id, 'email\nkeep@x.co')
  t.match(await importText(service, list.id, 'email\nx', { deactivate_subscribers_not_in_import: true }), {
    state: 'failed',
    error_message: /no record of the file is valid/,
  })
  t.match(await importText(service, list.id, 'email\n', { deactivate_subscribers_not_in_import: true }), {
    state: 'failed',
  })
  t.match(await collections.subscribers.findOne({ _id: `${list.id}:keep@x.co` }), { status: 'active' })
})

t.test('rows of which defaults make something large are written in smaller batches', async (t) => {
  const names = ['T1', 'T2', 'T3', 'T4']
  const list = await createList(
    service,
    names.map((name) => ({ name, field_type: 'text_multiline' })),
  )
  const long = 'x'.repeat(60_000)
  const defaults = { default_custom_fields: Object.fromEntries(names.map((name) => [name, long])) }
  const rows = Array.from({ length: 150 }, (_, i) => `large${i}@x.co`).join('\n')
  t.same(countsOf(await importText(service, list.id, `email\n${rows}`, defaults)), { added: 150 })
  const again = { ...defaults, overwrite: true }
  t.same(countsOf(await importText(service, list.id, `email\n${rows}`, again)), { updated: 150 })
  const [first] = await subscribersOf(list.id)
  t.same(Object.values(first!.custom_fields), [long, long, long, long])
  await checkCounts(list.id)
})

t.test('a default that its field no longer allows fails the rows that would get it', async (t) => {
  const list = await createList(service, [
    { name: 'Plan', field_type: 'select_single_dropdown', options: ['Free', 'Old'] },
    { name: 'Tags', field_type: 'select_multiple_checkboxes', options: ['A', 'B'] },
    { name: 'Points', field_type: 'number', maximum_value: 100 },
  ])
  const path = `/mailing_lists/${list.id}`
  await post(`${path}/subscribers`, { subscriber: { email: 'known@example.com' } })
  const create = (changes: Json) =>
    post(`${path}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email', 'Plan', 'Points'],
        default_custom_fields: { Plan: 'Old', Tags: ['A', 'B'], Points: 90 },
        begins_at: new Date(Date.now() + 3_600_000).toISOString(),
        file_source: {
          type: 'json',
          content:
            'email,Plan,Points\nnew@example.com,,\nplanned@example.com,Free,5\nknown@example.com,,\nx@example.com,,101\n',
        },
        ...changes,
      },
    })
  const kept = await create({})
  const overwriting = await create({ overwrite: true })
  const fieldsByName = new Map((await get(`${path}/custom_fields`)).map((field: Json) => [field.name, field]))
  const change = async (name: string, custom_field: Json) => {
    const { id } = fieldsByName.get(name) as Json
    t.match((await call('PUT', `${path}/custom_fields/${id}`, { custom_field })).body, { success: true })
  }
  // An option that is spelled differently is the same one.
  await change('Tags', { options: ['a', 'B'] })
  await change('Plan', { options: ['Free'] })
  await change('Points', { maximum_value: 50 })
  const run = async ({ id }: Json) => {
    await collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date(0) } })
    return importEnd(service, id)
  }

  const first = await run(kept)
  t.match(countsOf(first), { added: 1, skipped_overwrite: 1, failed: 2 })
  const failed = parse(await log(first, 'failed'))
  t.same(failed.slice(1), [
    [
      'new@example.com',
      '',
      '',
      `Plan: the default 'Old' is not one of "Free"; Points: the default '90' is not an integer from -9007199254740991 to 50`,
    ],
    ['x@example.com', '', '101', `Points: '101' is not an integer from -9007199254740991 to 50`],
  ])
  t.match(
    first.failure_summary.find((fault: Json) => fault.field === 'Plan'),
    { column: 2, reason: 'not one of "Free"', rows: 1 },
  )
  const planned = await collections.subscribers.findOne({
    mailing_list_id: list.id,
    email: 'planned@example.com',
  })
  const tags = (fieldsByName.get('Tags') as Json).id
  t.same(planned!.custom_fields[tags], ['a', 'B'], 'as the option is spelled now')

  const second = await run(overwriting)
  t.match(countsOf(second), { updated: 1, failed: 3 }, 'an update that would bring the default fails too')
})
