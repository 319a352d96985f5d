import t from 'tap'
import { purgeLogs } from '../../../engine/jobs/purge-logs.ts'
import { openDatabase } from '../../../shared/runtime/database.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  testMongodbUri,
  until,
  type Json,
} from '../../helpers/service.ts'
import { storedUploads } from '../../helpers/stored-uploads.ts'
import { service } from './service.ts'

const { call, collections, get, post } = service

const fields = [
  { name: 'Born', field_type: 'date' },
  { name: 'Tags', field_type: 'select_multiple_checkboxes', options: ['a', 'b', 'a;b'] },
  { name: 'Plan', field_type: 'select_single_dropdown', options: ['Free', 'Team'], required: true },
]
const options = {
  column_mapping: ['email', 'Born', null, 'Tags', 'Plan'],
  overwrite: true,
  blank_cells: 'clear',
}

const failedLog = async ({ id }: Json, query = '') =>
  (await call('GET', `/subscriber_imports/${id}/logs/failed${query}`)).text

/** An entry of the summary, its first values in the order of the documents. */
const fault = (
  [column, header, field]: [number | null, string | null, string | null],
  reason: string,
  [rows, first_record]: [number, number],
  example: string | null,
) => ({ column, header, field, reason, rows, first_record, example })
const record = [null, null, null] as [null, null, null]

const onlyTheAddress = 'not an email address: only the address belongs in the cell'
const long = 'ß'.repeat(61)
const content = [
  '"E-Mail ",Geburtstag,,Tags,Plan',
  'ann@x.co,,,a;b,free',
  'mailto:bob@x.co,31/12/2014,,,free',
  'Carl <carl@x.co>,,,,free',
  'dora@x.co,31/12/2014,,c,gold',
  '"eve@x.co","x\ny",,"""a"";b",free',
  `fay@x.co, ${long},,,free`,
  'gus@x.co,13/13/2014,,,free',
  'hal@x.co,,,,',
  'ivy@x.co,,,,free,surplus',
  'joe\0@x.co,,,,free',
  'MAILTO:kim@x.co,,,,free',
  'x,\0,,,free',
  '"lea@x.co,,,,free',
].join('\n')
const summary = [
  fault([2, 'Geburtstag', 'Born'], 'not a date such as 2014-12-31 or 12/31/2014', [3, 5], 'x\ny'),
  fault([1, 'E-Mail ', 'email'], `${onlyTheAddress}, without "mailto:"`, [2, 2], 'mailto:bob@x.co'),
  fault(
    [1, 'E-Mail ', 'email'],
    `${onlyTheAddress}, without a name and "<" or ">"`,
    [1, 3],
    'Carl <carl@x.co>',
  ),
  fault(
    [2, 'Geburtstag', 'Born'],
    'not a date such as 2014-12-31 or 12/31/2014; if the day comes first, set date_format to dmy',
    [1, 4],
    '31/12/2014',
  ),
  fault(
    [5, 'Plan', 'Plan'],
    'a new subscriber needs a value, and neither the file nor a default has one',
    [1, 8],
    '',
  ),
  fault(record, 'the record has more cells than the mapping has columns', [1, 9], null),
  fault(record, 'the record has a NUL character', [1, 10], null),
  fault([1, 'E-Mail ', 'email'], 'not an email address', [1, 12], 'x'),
  fault(record, 'unterminated enclosure', [1, 13], null),
]

t.test('an import says why rows failed: each once, under its first fault, without values', async (t) => {
  const list = await createList(service, fields)
  for (const dry_run of [true, false]) {
    const view = await importText(service, list.id, content, { ...options, dry_run })
    t.same(countsOf(view), { added: 1, failed: 12 })
    t.same(view.failure_summary, summary, dry_run ? 'a dry run' : 'an import')
    const { text } = await call('GET', `/subscriber_imports/${view.id}/events`)
    const shown = JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? '{}')
    t.same(shown.failure_summary, summary, 'its events')
  }
  const clearing = 'email,Born,,Tags,Plan\nann@x.co,,,," "\n'
  const again = await importText(service, list.id, clearing, options)
  t.same(again.failure_summary, [
    fault([5, 'Plan', 'Plan'], "the cell is blank, and a required field can't be cleared", [1, 1], ' '),
  ])
  const good = await importText(service, list.id, 'email\nzoe@x.co\n', {
    column_mapping: ['email'],
    default_custom_fields: { Plan: 'Team' },
  })
  t.same(good.failure_summary, [])
  const unmapped = await importText(service, list.id, 'yan@x.co\n', {
    column_mapping: ['email'],
    file_format: { csv_has_headers: false },
  })
  t.match(unmapped.failure_summary, [{ column: null, header: null, field: 'Plan', rows: 1, example: null }])
  t.match(
    await importText(service, list.id, 'x\n', {
      column_mapping: ['email'],
      file_format: { csv_has_headers: false },
    }),
    {
      failure_summary: [{ column: 1, header: null, field: 'email', first_record: 1, example: 'x' }],
    },
  )
})

t.test('a value in an example is cut to 60 characters', async (t) => {
  const list = await createList(service, fields)
  const view = await importText(service, list.id, `email,B\na@x.co, ${long}\n`, {
    column_mapping: ['email', 'Born'],
  })
  t.match(view.failure_summary, [{ rows: 1, example: ` ${'ß'.repeat(58)}…` }])
})

t.test('undecodable bytes are a fault of the record', async (t) => {
  const list = await createList(service)
  const file = Buffer.from('email,x\na@x.co,\xe9\nb@x.co,\nc@x.co,\nnobody,\xe9\n', 'latin1')
  const view = await importUpload(list.id, file, { column_mapping: ['email', null] })
  t.same(view.failure_summary, [
    fault(record, 'invalid UTF-8', [1, 1], null),
    fault([1, 'email', 'email'], 'not an email address', [1, 4], 'nobody'),
  ])
})

async function importUpload(listId: number, file: Buffer, more: object): Promise<Json> {
  const filename = `why-${listId}.csv`
  await storedUploads(service).put(filename, file)
  const { id } = await post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { ...more, file_source: { type: 'upload_directory', filename } },
  })
  return importEnd(service, id)
}

t.test('the 20 most frequent faults are shown, then those of the first records', async (t) => {
  const numbers = Array.from({ length: 23 }, (_, i) => ({ name: `N${i}`, field_type: 'number' }))
  const list = await createList(service, numbers)
  const row = (column: number, i: number) =>
    [`r${i}@x.co`, ...numbers.map((_, at) => (at === column ? 'x' : '1'))].join(',')
  // Column 3 has three faults, column 22 two, and all others one each, from the last column to the first.
  const columns = [...Array.from({ length: 23 }, (_, i) => 22 - i), 22, 3, 3]
  const view = await importText(service, list.id, columns.map(row).join('\n'), {
    column_mapping: ['email', ...numbers.map(({ name }) => name)],
    file_format: { csv_has_headers: false },
  })
  t.same(countsOf(view), { failed: 26 })
  t.same(
    view.failure_summary.map(({ field, rows, first_record }: Json) => [field, rows, first_record]),
    [['N3', 3, 20], ['N22', 2, 1], ...Array.from({ length: 18 }, (_, i) => [`N${21 - i}`, 1, i + 2])],
  )
})

t.test('the failed log names the line on which each record begins', async (t) => {
  const list = await createList(service, fields)
  const file = [
    '"E-\r\nMail",Born\r',
    ' \n\r\n"bad, ""1""",x\n',
    'ann@x.co,\r"line\r\n\n\rbreaks",y\r\n"bad\t"\n\tbad,=z\n',
  ].join('')
  const view = await importText(service, list.id, file, {
    column_mapping: ['email', 'Born'],
    default_custom_fields: { Plan: 'Free' },
  })
  t.equal(
    await failedLog(view, '?line=true'),
    [
      '"E-\r\nMail",Born,line,error',
      `"bad, ""1""",x,5,"email: 'bad, ""1""' is not an email address"`,
      `"line\r\n\n\rbreaks",y,7,email: 'line breaks' is not an email address`,
      `"bad\t",,11,email: 'bad' is not an email address`,
      `"\tbad",=z,12,email: 'bad' is not an email address`,
      '',
    ].join('\n'),
  )
})

t.test('lines are told with safe cells too', async (t) => {
  const list = await createList(service)
  const view = await importText(service, list.id, 'email\n=bad\n')
  const message = "email: '=bad' is not an email address"
  t.equal(await failedLog(view), `email,error\n=bad,${message}\n`)
  t.equal(await failedLog(view, '?line=0'), `email,error\n=bad,${message}\n`)
  t.equal(await failedLog(view, '?line=1&safe=true'), `email,line,error\n'=bad,2,${message}\n`)
  const refused = await call('GET', `/subscriber_imports/${view.id}/logs/failed?line=maybe`)
  t.match(refused.body, { error_code: 'invalid_request', error_message: /line/ })
})

t.test('examples go with the logs', async (t) => {
  const database = await openDatabase({ uri: testMongodbUri(), name: service.settings['MONGODB_DATABASE']! })
  t.teardown(() => database.close())
  const list = await createList(service)
  const { id } = await importText(service, list.id, 'email\nann@example.com\nbad\n')
  await until(
    'clearing up',
    () => collections.imports.findOne({ _id: id }),
    (document) => document?.finalized === true,
  )
  const weekAgo = new Date(Date.now() - 7 * 24 * 3_600_000)
  await collections.imports.updateOne({ _id: id }, { $set: { finished_at: weekAgo } })
  await purgeLogs(database, createLogger({ process: 'test', level: 'silent' })).runOnce()
  const { failure_summary: faults } = await get(`/subscriber_imports/${id}`)
  t.same(faults, [fault([1, 'email', 'email'], 'not an email address', [1, 2], null)])
  t.notMatch(JSON.stringify(await collections.imports.findOne({ _id: id })), /"bad"/)
})

t.test('apply_custom_field_defaults can be off, for imports, dry runs and inspections', async (t) => {
  const list = await createList(service, [
    { name: 'Points', field_type: 'number', default: 5 },
    { name: 'Plan', field_type: 'select_single_dropdown', options: ['Free', 'Team'], default: 'Free' },
    { name: 'Sure', field_type: 'boolean', default: true, required: true },
  ])
  const mapping = ['email', 'Points', 'Sure']
  const rows = 'a@x.co,,yes\nb@x.co,7,no\nc@x.co,1,\n'
  const off = {
    apply_custom_field_defaults: false,
    column_mapping: mapping,
    file_format: { csv_has_headers: false },
  }
  const inspected = await post(`/mailing_lists/${list.id}/subscriber_imports/inspect`, {
    subscriber_import: { ...off, file_source: { type: 'json', content: rows } },
  })
  t.same(
    inspected.records.map(({ result }: Json) => result),
    ['added', 'added', 'failed'],
  )
  for (const dry_run of [true, false]) {
    const view = await importText(service, list.id, rows, { ...off, dry_run })
    t.match(view, { apply_custom_field_defaults: false, stats: { subscribers: { added: 2, failed: 1 } } })
    t.match(view.failure_summary, [{ column: 3, field: 'Sure', rows: 1, first_record: 3 }])
  }
  const withDefaults = { ...off, default_custom_fields: { Plan: 'Team', Points: 3 } }
  await importText(service, list.id, 'd@x.co,,no\n', withDefaults)
  const on = await importText(service, list.id, 'e@x.co,,\n', { ...off, apply_custom_field_defaults: true })
  t.match(on, { apply_custom_field_defaults: true })
  const values = async (email: string) => {
    const [{ custom_fields: found }] = await get(`/mailing_lists/${list.id}/subscribers/${email}`)
    return Object.values<Json>(found).map(({ value }) => value)
  }
  t.same(await values('a@x.co'), [null, null, true])
  t.same(await values('b@x.co'), [7, null, false])
  t.same(await values('d@x.co'), [3, 'Team', false])
  t.same(await values('e@x.co'), [5, 'Free', true])
  const refused = await call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...off,
      apply_custom_field_defaults: 'no',
      file_source: { type: 'json', content: rows },
    },
  })
  t.match(refused.body, { error_code: 'validation_failed', error_message: /apply_custom_field_defaults/ })
  const plain = await importText(service, list.id, 'f@x.co\n', { file_format: { csv_has_headers: false } })
  t.match(plain, { apply_custom_field_defaults: true, stats: { subscribers: { added: 1 } } })
})
