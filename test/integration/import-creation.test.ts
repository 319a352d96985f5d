import { once } from 'node:events'
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { UUID, type Document } from 'mongodb'
import t, { type Test } from 'tap'
import { CommandGate } from '../helpers/command-gate.ts'
import { crashAt } from '../helpers/crash-at.ts'
import {
  basic,
  bootstrapKey,
  callerOf,
  createList,
  startProcess,
  startService,
  testMongodbUri,
  until,
  type Json,
} from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

const service = await startService(t, ['control-plane'])
const { call, get, post } = service
const list = await createList(service, [
  { name: 'Name', field_type: 'text' },
  { name: 'name 2', field_type: 'number' },
  { name: 'Boxes', field_type: 'select_multiple_checkboxes', options: ['a', 'b'] },
  { name: 'Since', field_type: 'date' },
  { name: 'Birthday', field_type: 'day_of_year' },
])
const withBoth = await createList(service, [], { has_format: true, has_confirmed: true })
const remote = await createList(service, [], { is_remote_list: true })
const json = { type: 'json', content: 'a@b.co' }
const create = (subscriber_import: unknown, listId = list.id) =>
  call('POST', `/mailing_lists/${listId}/subscriber_imports`, { subscriber_import })

t.test('a creation returns the full view, with every default', async (t) => {
  const { body } = await create({ column_mapping: ['email'], file_source: json })
  const { id, created_at, begins_at, ...rest } = body.data
  t.type(id, 'number')
  t.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  t.equal(begins_at, created_at)
  t.same(rest, {
    mailing_list_id: list.id,
    mailing_list_name: list.name,
    state: 'scheduled',
    started_at: null,
    finished_at: null,
    created_by: { by: 'api', api_key_id: 1, api_key_name: 'First key', user_id: null, user_name: null },
    cancelled_by: null,
    headers: null,
    download: null,
    overwrite: false,
    deactivate_subscribers_not_in_import: false,
    error_message: null,
    autoresponders: {
      subscription: { trigger: false, also_trigger_on_updated_subscribers: false },
      api: { trigger_new: null, trigger_updated: null },
    },
    overwrite_what: { custom_fields: true, confirmed: false, format: false, status: false },
    overwrite_when_status: {
      active: true,
      unsubscribed: false,
      bounced: false,
      deactivated: false,
      scomp: false,
    },
    column_mapping: ['email'],
    default_custom_fields: {},
    subscriber_defaults: { status: 'active' },
    file_source: { type: 'json', filename: 'data', url: null },
    file_format: {
      csv_has_headers: true,
      character_set: 'utf-8',
      csv_field_separator: ',',
      csv_field_enclosure: '"',
      csv_field_escape: null,
      csv_skip_lines: 0,
      date_format: 'mdy',
    },
    detected_character_set: null,
    detected_csv_field_separator: null,
    apply_custom_field_defaults: true,
    failure_summary: [],
    stats: {
      number_of_records: null,
      records_imported: 0,
      subscribers: {
        added: 0,
        updated: 0,
        failed: 0,
        skipped_overwrite: 0,
        skipped_active: 0,
        skipped_unsubscribed: 0,
        skipped_scomp: 0,
        skipped_bounced: 0,
        skipped_deactivated: 0,
        skipped_duplicate: 0,
        skipped_over_limit: 0,
        deactivated: 0,
      },
    },
    dry_run: false,
    blank_cells: 'keep',
    callback_url: null,
    waiting_for_import_id: null,
    warnings: [],
  })
  t.same(await get(`/subscriber_imports/${id}`), body.data, 'it is shown as it was answered')
})

t.test('the whole body is accepted, and echoed in its canonical spelling', async (t) => {
  const { body } = await create(
    {
      begins_at: '2100-06-01T10:00:00+02:00',
      overwrite: true,
      deactivate_subscribers_not_in_import: true,
      autoresponders: {
        subscription: { trigger: true, also_trigger_on_updated_subscribers: true },
        api: { trigger_new: null },
      },
      overwrite_what: { custom_fields: false, confirmed: true, format: true, status: true },
      overwrite_when_status: {
        active: false,
        unsubscribed: true,
        bounced: true,
        deactivated: true,
        scomp: true,
      },
      column_mapping: [' EMAIL ', null, '', 'Email_Format', 'confirmed', 'Confirm_Time'],
      subscriber_defaults: { status: 'unsubscribed', confirmed: true, format: 'text' },
      file_source: { type: 'JSON', content: 'x' },
      file_format: {
        csv_has_headers: false,
        character_set: 'iso-8859-1',
        csv_field_separator: '\t',
        csv_field_enclosure: "'",
        csv_field_escape: '\\',
        csv_skip_lines: 0,
        date_format: 'dmy',
      },
      dry_run: true,
      blank_cells: 'clear',
      callback_url: 'https://example.com/done',
    },
    withBoth.id,
  )
  t.match(body.data, {
    begins_at: '2100-06-01T08:00:00Z',
    overwrite: true,
    overwrite_what: { custom_fields: false, confirmed: true, format: true, status: true },
    column_mapping: ['email', null, null, 'email_format', 'confirmed', 'confirm_time'],
    subscriber_defaults: { status: 'unsubscribed', confirmed: true, format: 'text' },
    file_source: { type: 'json' },
    file_format: {
      csv_has_headers: false,
      character_set: 'iso-8859-1',
      csv_field_separator: '\t',
      csv_field_enclosure: "'",
      csv_field_escape: '\\',
      csv_skip_lines: 0,
      date_format: 'dmy',
    },
    dry_run: true,
    blank_cells: 'clear',
    callback_url: 'https://example.com/done',
    callback_secret: /^whsec_/,
  })
  t.notOk('callback_secret' in (await get(`/subscriber_imports/${body.data.id}`)), 'the secret is shown once')
})

t.test(
  'custom fields are found exactly first, then without case; defaults are read as the field reads them',
  async (t) => {
    const { body } = await create({
      column_mapping: ['email', 'NAME'],
      default_custom_fields: {
        'NAME 2': '007',
        Boxes: ['b', 'A'],
        name: null,
        Since: '0000-00-00',
        Birthday: 'NULL',
      },
      file_source: json,
    })
    t.match(body.data, {
      column_mapping: ['email', 'Name'],
      default_custom_fields: { 'name 2': 7, Boxes: ['a', 'b'] },
    })
  },
)

t.test('what a request asks for in vain is a warning of its import, and of its inspection', async (t) => {
  const updatedToo = 'autoresponders.subscription.also_trigger_on_updated_subscribers'
  const off = (...names: string[]) =>
    `overwrite is off and no subscriber is updated, so these have no effect: ${names.join(', ')}`
  const ineffective = 'has no effect, as'
  const vain = (name: string) =>
    `overwrite_what.${name} is on, but neither a column nor a default of the request brings a value`
  const kept = (source: string) =>
    `${source}, and overwrite_what.status is off: only new subscribers get the status of their row, existing ones keep theirs`
  const overwrite = { overwrite: true }
  const cases: [Json, string[]][] = [
    [{}, []],
    [overwrite, []],
    [{ overwrite_what: { status: true, format: false } }, [off('overwrite_what.status')]],
    [
      {
        overwrite_what: { custom_fields: true },
        overwrite_when_status: { scomp: true, active: false },
        blank_cells: 'clear',
      },
      [off('overwrite_what.custom_fields', 'overwrite_when_status.scomp', 'blank_cells')],
    ],
    [
      { autoresponders: { subscription: { trigger: true, also_trigger_on_updated_subscribers: true } } },
      [off(updatedToo)],
    ],
    [
      { ...overwrite, autoresponders: { subscription: { also_trigger_on_updated_subscribers: true } } },
      [`${updatedToo} has no effect without autoresponders.subscription.trigger`],
    ],
    [{ ...overwrite, overwrite_what: { status: true } }, [vain('status')]],
    [
      { ...overwrite, overwrite_what: { status: true, confirmed: true, format: true, custom_fields: true } },
      ['custom_fields', 'status', 'confirmed', 'format'].map(vain),
    ],
    [{ ...overwrite, overwrite_what: { status: true }, subscriber_defaults: { status: 'active' } }, []],
    [{ ...overwrite, overwrite_what: { status: true }, column_mapping: ['email', 'consent'] }, []],
    [{ ...overwrite, overwrite_what: { status: true }, column_mapping: ['email', 'remove_time'] }, []],
    [{ ...overwrite, column_mapping: ['email', 'status'] }, [kept('column_mapping has status')]],
    [{ ...overwrite, column_mapping: ['email', 'consent'] }, [kept('column_mapping has consent')]],
    [{ ...overwrite, column_mapping: ['email', 'remove_time'] }, [kept('column_mapping has remove_time')]],
    [
      { ...overwrite, subscriber_defaults: { status: 'unsubscribed' } },
      [kept('subscriber_defaults has status')],
    ],
    [{ subscriber_defaults: { status: 'unsubscribed' } }, []],
    [
      {
        subscriber_defaults: { format: null },
        overwrite_what: { status: null },
        overwrite_when_status: null,
      },
      [],
    ],
    [
      { subscriber_defaults: { format: 'html' } },
      ['subscriber_defaults.format has no effect, as the list has no format field'],
    ],
    [
      { ...overwrite, blank_cells: 'clear' },
      [`blank_cells ${ineffective} no column is mapped to a custom field`],
    ],
    [{ ...overwrite, blank_cells: 'clear', column_mapping: ['email', 'Name'] }, []],
    [
      {
        ...overwrite,
        blank_cells: 'clear',
        overwrite_what: { custom_fields: false },
        column_mapping: ['email', 'Name'],
      },
      [`blank_cells ${ineffective} overwrite_what.custom_fields is off`],
    ],
    [
      { file_format: { date_format: 'dmy' } },
      [`file_format.date_format ${ineffective} neither a column nor a default is a date`],
    ],
    [{ file_format: { date_format: 'mdy', character_set: 'auto' } }, []],
    [{ file_format: { date_format: 'dmy' }, column_mapping: ['email', 'Since'] }, []],
    [{ file_format: { date_format: 'dmy' }, default_custom_fields: { Birthday: '24-12' } }, []],
    [{ file_format: { date_format: 'dmy' }, column_mapping: ['email', 'subscribe_time'] }, []],
    [
      { file_format: { character_set: 'ISO-8859-1' } },
      [`file_format.character_set ${ineffective} inline content is text already`],
    ],
    [
      { dryrun: true, file_format: { seperator: ';', csv_has_headers: false }, größe: 1, id: 7, stats: {} },
      ['ignored, as imports have no such option: dryrun, file_format.seperator, gr%C3%B6%C3%9Fe'],
    ],
  ]
  for (const [more, warnings] of cases) {
    const body = { column_mapping: ['email'], file_source: json, begins_at: '2100-01-01T00:00:00Z', ...more }
    const created = await create(body)
    t.same(created.body.data?.warnings, warnings, `${JSON.stringify(more)} ${created.body.error_message}`)
    const inspected = await call('POST', `/mailing_lists/${list.id}/subscriber_imports/inspect`, {
      subscriber_import: { ...body, file_format: { ...body.file_format, csv_has_headers: false } },
    })
    t.same(inspected.body.data?.warnings, warnings, `inspected: ${JSON.stringify(more)}`)
  }
  for (const [column, name] of [
    ['confirmed', 'confirmed'],
    ['confirm_time', 'confirmed'],
    ['email_format', 'format'],
  ] as const) {
    const mapping = { ...overwrite, column_mapping: ['email', column] }
    const sent = { ...mapping, file_source: json, begins_at: '2100-01-01T00:00:00Z' }
    t.same((await create(sent, withBoth.id)).body.data.warnings, [
      `column_mapping has ${column}, and overwrite_what.${name} is off: only new subscribers get what their row says, existing ones keep what they have`,
    ])
    t.same((await create({ ...sent, overwrite_what: { [name]: true } }, withBoth.id)).body.data.warnings, [])
  }
  const beside = await call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], file_source: json, begins_at: '2100-01-01T00:00:00Z' },
    dry_run: true,
  })
  t.same(beside.body.data.warnings, [
    'ignored, as imports have no such option: dry_run beside subscriber_import',
  ])
  const echoed = await create({
    column_mapping: ['email'],
    file_source: json,
    begins_at: '2100-01-01T00:00:00Z',
    file_format: { columns: [], records: [], warnings: [], import_error: null, column_mapping: [] },
  })
  t.same(echoed.body.data.warnings, [], 'the reply of an inspection, sent as file_format')
  const { created_at: _, begins_at: __, ...view } = echoed.body.data
  const again = await create({ ...view, file_source: json, begins_at: '2100-01-01T00:00:00Z' })
  t.same(again.body.data.warnings, [], 'the view of an import, with every option as filled in')
})

const longUrl = (length: number): string => 'http://8.8.8.8/'.padEnd(length, 'x')

t.test('the stored values of an import are bounded: a URL of 8,192 characters is accepted', async (t) => {
  const { body } = await create({
    ...{ column_mapping: ['email'], begins_at: '2100-01-01T00:00:00Z', callback_url: longUrl(8_192) },
    file_source: { type: 'url', url: longUrl(8_192) },
  })
  t.match(body, { success: true, data: { file_source: { url: longUrl(8_192) } } })
})

t.test('a mapping, default or value that does not fit is refused', async (t) => {
  const bad: [Json, RegExp][] = [
    [{ column_mapping: [] }, /must hold email/],
    [{ column_mapping: ['Name'] }, /must hold email/],
    [{ column_mapping: ['email', 'Email'] }, /mapped twice/],
    [{ column_mapping: ['email', 'name', 'NAME'] }, /mapped twice/],
    [{ column_mapping: ['email', 'nothing'] }, /neither a built-in column/],
    [{ column_mapping: ['email', 'confirmed'] }, /confirmed field/],
    [{ column_mapping: ['email', 'email_format'] }, /format field/],
    [{ column_mapping: ['email', 5] }, /column_mapping\.1 must be a string/],
    [{ default_custom_fields: { nothing: 'x' } }, /no custom field/],
    [{ default_custom_fields: { 'name 2': 'x' } }, /must be an integer/],
    [{ default_custom_fields: { Boxes: ['z'] } }, /one or more of/],
    [{ subscriber_defaults: { status: 'gone' } }, /subscriber_defaults\.status must be one of/],
    [{ subscriber_defaults: { format: 'rtf' } }, /subscriber_defaults\.format/],
    [{ begins_at: '2100-06-01' }, /begins_at must be/],
    [{ begins_at: 5 }, /begins_at must be a string/],
    [{ file_format: { csv_field_separator: ':' } }, /csv_field_separator/],
    [
      { file_format: { character_set: 'latin1' } },
      /character_set must be one of "utf-8", "iso-8859-1", "windows-1252", "windows-1250", "windows-1251", "iso-8859-2", "iso-8859-15", "utf-16le", "utf-16be", "utf-16", "shift_jis", "gbk", "big5", "euc-kr", "auto"/,
    ],
    [{ blank_cells: 'drop' }, /blank_cells/],
    [{ autoresponders: { api: { trigger_new: { id: 5 } } } }, /5 is no autoresponder of the list/],
    [{ autoresponders: { api: { trigger_new: {} } } }, /must have the key id or name/],
    [{ callback_url: 'ftp://example.com' }, /callback_url must be a URL/],
    [{ callback_url: 'http://127.0.0.2/' }, /URL_IMPORT_ALLOW/],
    [{ file_source: { type: 'mail' } }, /file_source\.type must be one of/],
    [{ file_source: {} }, /file_source\.type is required/],
    [{ file_source: { type: 'json' } }, /content is required/],
    [{ file_source: { type: 'json', content: ' \n' } }, /content must not be blank/],
    [{ file_source: { type: 'url' } }, /url is required/],
    [{ file_source: { type: 'url', url: 'gopher://example.com' } }, /begins with/],
    [{ file_source: { type: 'url', url: 'file:///etc/passwd' } }, /begins with/],
    [{ file_source: { type: 'url', url: 'http://169.254.169.254/' } }, /no public address/],
    [{ file_source: { type: 'url', url: 'http://2130706434/' } }, /no public address/],
    [{ file_source: { type: 'url', url: 'http://[::ffff:10.0.0.1]/' } }, /no public address/],
    [{ file_source: { type: 'url', url: longUrl(8_193) } }, /url must have at most 8,?192 characters/],
    [{ callback_url: longUrl(8_193) }, /callback_url must have at most 8,?192 characters/],
    [
      { file_source: { type: 'upload_directory', filename: 'x'.repeat(1_025) } },
      /filename must have at most/,
    ],
  ]
  for (const [change, message] of bad) {
    const { body } = await create({ column_mapping: ['email'], file_source: json, ...change })
    t.match(
      body,
      { success: false, error_code: 'validation_failed', error_message: message },
      JSON.stringify(change),
    )
  }
})

t.test('a file of the upload directory is there, under a plain name', async (t) => {
  await storedUploads(service).put('there.csv', 'a@b.co')
  const upload = async (filename: unknown) =>
    (await create({ column_mapping: ['email'], file_source: { type: 'upload_directory', filename } })).body
  t.match(await upload('there.csv'), {
    success: true,
    data: { file_source: { type: 'upload_directory', filename: 'there.csv', url: null } },
  })
  for (const name of [
    ...['absent.csv', '../1/there.csv'],
    ...['/etc/passwd', '..', '.', 'a\0b', '', '.hidden', 'a\\b'],
    undefined,
    5,
  ]) {
    t.match(
      await upload(name),
      { success: false, error_code: 'validation_failed', error_message: /filename/ },
      String(name),
    )
  }
})

t.test('a password in a URL is shown nowhere', async (t) => {
  const { body } = await create({
    begins_at: '2100-01-01T00:00',
    column_mapping: ['email'],
    file_source: { type: 'url', url: 'https://me:s3cret@example.com/a%20b.csv?x=1' },
  })
  t.match(body.data.file_source, {
    type: 'url',
    filename: 'a b.csv',
    url: 'https://me:***@example.com/a%20b.csv?x=1',
  })
  t.notMatch((await call('GET', '/subscriber_imports?scope=all')).text, /s3cret/)
  t.notMatch(service.processes['control-plane']!.log(), /s3cret/)
})

t.test('Remote Lists have no imports', async (t) => {
  t.match((await create({ column_mapping: ['email'], file_source: json }, remote.id)).body, {
    error_code: 'invalid_request',
    error_message: /Remote List/,
  })
  t.match((await call('GET', `/mailing_lists/${remote.id}/subscriber_imports`)).body, {
    error_code: 'invalid_request',
    error_message: /Remote List/,
  })
})

t.test('an Idempotency-Key answers again as the first time', async (t) => {
  const body = {
    subscriber_import: {
      begins_at: '2100-01-01T00:00',
      column_mapping: ['email'],
      file_source: json,
      callback_url: 'https://example.com/',
    },
  }
  const send = (key: string, content: unknown = body, listId = list.id) =>
    call('POST', `/mailing_lists/${listId}/subscriber_imports`, content, {
      headers: { 'idempotency-key': key },
    })
  const [first, ...others] = await Promise.all([send('k1'), send('k1'), send('k1'), send('k1')])
  t.equal(first.body.success, true)
  for (const other of others) t.same(other.body, first.body, 'requests that race make one import')
  t.match((await send('k1', { subscriber_import: { ...body.subscriber_import, overwrite: true } })).body, {
    error_code: 'validation_failed',
    error_message: /another body/,
  })
  t.not((await send('k2')).body.data.id, first.body.data.id)
  t.not(
    (await send('k1', body, withBoth.id)).body.data.id,
    first.body.data.id,
    'another list is another matter',
  )
  const other = await service.post('/api_keys', { api_key: { name: 'Another caller' } })
  const byOther = await call('POST', `/mailing_lists/${list.id}/subscriber_imports`, body, {
    headers: { 'idempotency-key': 'k1' },
    key: other.key,
  })
  t.equal(byOther.body.success, true)
  t.not(byOther.body.data.id, first.body.data.id, 'another API key is another matter too')
  t.match((await send('x'.repeat(256))).body, { error_code: 'invalid_request' })
  const longest = Buffer.from('💥'.repeat(255)).toString('latin1')
  t.match((await send(longest)).body, { success: true }, 'characters are counted, not bytes or halves')
  t.match((await send('k3', { subscriber_import: { column_mapping: [] } })).body, {
    error_code: 'validation_failed',
  })
  t.match((await send('k3')).body, { success: true }, 'a refusal is not remembered')
  await service.collections.idempotencyKeys.updateMany({}, { $set: { expires_at: new Date() } })
  t.not((await send('k1')).body.data.id, first.body.data.id, 'a day later it is new')
})

interface Sent {
  request: ClientRequest
  answer: Promise<Json>
}

/** A creation of which the body is sent when the test likes. */
function open(origin: string, key: string | string[]): Sent {
  const request = httpRequest(`${origin}/svc/api/v2/mailing_lists/${list.id}/subscriber_imports`, {
    method: 'POST',
    headers: {
      authorization: basic(`api:${bootstrapKey}`),
      'content-type': 'application/json',
      'idempotency-key': key,
    },
  })
  const answer = (async () => {
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return JSON.parse(Buffer.concat(await response.toArray()).toString())
  })()
  answer.catch(() => undefined)
  return { request, answer }
}

const keyed = (content: string): string =>
  JSON.stringify({
    subscriber_import: {
      begins_at: '2100-01-01T00:00',
      column_mapping: ['email'],
      file_source: { type: 'json', content },
      callback_url: 'https://example.com/',
    },
  })

t.test('two control planes make one import for one Idempotency-Key', async (t) => {
  const beside = await startProcess('control-plane', service.settings)
  t.teardown(() => beside.stop())
  const origins = [service.processes['control-plane']!.ready.http!, beside.ready.http!]
  const imports = () => service.collections.imports.countDocuments()
  const sendAt = (i: number, key: string, body: string): Promise<Json> => {
    const { request, answer } = open(origins[i % 2]!, key)
    request.end(body)
    return answer
  }
  for (const race of ['race 1', 'race 2', 'race 3']) {
    const before = await imports()
    const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => sendAt(i, race, keyed('a@b.co'))))
    t.equal(answers[0].success, true)
    t.match(answers[0].data.callback_secret, /^whsec_/)
    for (const answer of answers) t.same(answer, answers[0])
    t.equal(await imports(), before + 1)
  }

  const before = await imports()
  const others = await Promise.all(
    Array.from({ length: 6 }, (_, i) => sendAt(i, 'other bodies', keyed(`${i}@b.co`))),
  )
  t.equal(others.filter((answer) => answer.success === true).length, 1)
  for (const answer of others.filter(({ success }) => success !== true))
    t.match(answer, { error_code: 'validation_failed', error_message: /another body/ })
  t.equal(await imports(), before + 1)

  const long = keyed('long@b.co\n'.repeat(20_000))
  const slow = open(origins[0]!, 'while it is sent')
  slow.request.write(long.slice(0, 100_000))
  const quick = await sendAt(1, 'while it is sent', long)
  t.equal(quick.success, true)
  slow.request.end(long.slice(100_000))
  t.same(await slow.answer, quick)
  t.equal(await imports(), before + 2)

  const twice = open(origins[0]!, ['one', 'two'])
  twice.request.end(keyed('a@b.co'))
  t.match(await twice.answer, { error_code: 'invalid_request', error_message: /once$/ })
})

/** A second control plane, of which the gate stops commands or loses replies. */
async function startBehindGate(t: Test) {
  const gate = await CommandGate.open(testMongodbUri())
  const beside = await startProcess('control-plane', { ...service.settings, MONGODB_URI: gate.uri })
  t.teardown(async () => {
    await beside.stop()
    await gate.close()
  })
  return { gate, beside }
}

t.test('a creation that is refused because its list is busy leaves the quota', async (t) => {
  const own = await createList(service)
  const { mailingLists, imports, ledgers } = service.collections
  const entries = async () => (await ledgers.findOne({ _id: 1 }))?.imports.length
  const before = [await imports.countDocuments(), await entries()]
  const session = service.client.startSession()
  session.startTransaction()
  await mailingLists.updateOne({ _id: own.id }, { $set: { name: 'Busy' } }, { session })
  const { status, body } = await create({ column_mapping: ['email'], file_source: json }, own.id)
  t.match([status, body], [503, { error_message: /nothing of this request was written/ }])
  await session.abortTransaction()
  await session.endSession()
  t.same([await imports.countDocuments(), await entries()], before)
})

t.test('a field that is deleted while a creation is checked is mapped by no import', async (t) => {
  const own = await createList(service, [{ name: 'Color', field_type: 'text' }])
  const [field] = await get(`/mailing_lists/${own.id}/custom_fields`)
  const { gate, beside } = await startBehindGate(t)
  // What the creation is checked against has been read then.
  const isChecked = gate.watch((command) => command['update'] === 'ledgers')
  const created = callerOf(() => beside.ready.http!)('POST', `/mailing_lists/${own.id}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email', 'Color'], file_source: json },
  })
  await isChecked
  const deleted = await call('DELETE', `/mailing_lists/${own.id}/custom_fields/${field.id}`)
  t.equal(deleted.status, 200)
  gate.release()
  t.match((await created).body, { success: false, error_code: 'validation_failed', error_message: /Color/ })
})

t.test(
  'a repeated creation is answered with "try again" where a failover undoes the first one',
  async (t) => {
    const { gate, beside } = await startBehindGate(t)
    const { idempotencyKeys, imports } = service.collections
    const headers = { 'idempotency-key': 'undone' }
    const send = (origin: string) =>
      callerOf(() => origin)(
        'POST',
        `/mailing_lists/${list.id}/subscriber_imports`,
        JSON.parse(keyed('a@b.co')),
        {
          headers,
        },
      )
    const writes = (collection: string) => (command: Document) =>
      command['update'] === collection || command['findAndModify'] === collection
    const inTransaction = gate.watch(writes('mailing_lists'))
    const repeat = send(beside.ready.http!)
    await inTransaction
    const first = await send(service.processes['control-plane']!.ready.http!)
    gate.release()
    await gate.watch(writes('ledgers'))
    await Promise.all([
      idempotencyKeys.deleteMany({ import_id: first.body.data.id }),
      imports.deleteOne({ _id: first.body.data.id }),
    ])
    gate.release()
    const { status, headers: got, body } = await repeat
    t.match(
      [status, got.get('retry-after'), body],
      [503, '5', { error_message: /send the same request again/ }],
    )
    const again = await send(beside.ready.http!)
    t.equal(again.body.success, true)
  },
)

t.test(
  'a control plane that is killed while it creates leaves one import for one key, or none',
  async (t) => {
    const origin = service.processes['control-plane']!.ready.http!
    for (const [moment, exists] of [
      ['insert imports after 1', false],
      ['insert imports > commitTransaction after 1', true],
    ] as const) {
      const doomed = await startProcess('control-plane', {
        ...service.settings,
        ...crashAt(moment),
      })
      t.teardown(() => doomed.stop('SIGKILL'))
      const { request, answer } = open(doomed.ready.http!, moment)
      request.end(keyed('a@b.co'))
      await t.rejects(answer)
      const log = await until(
        'the end of the process',
        async () => doomed.log(),
        (text) => text.includes('in session') && doomed.child.signalCode !== null,
      )
      const session = /in session ([\da-f]{32})/.exec(log)![1]!
      await service.client.db('admin').command({ killSessions: [{ id: new UUID(session) }] })
      const before = await service.collections.imports.countDocuments()
      const [one, other] = [open(origin, moment), open(origin, moment)]
      for (const sent of [one, other]) sent.request.end(keyed('a@b.co'))
      t.equal((await one.answer).success, true)
      t.same(await other.answer, await one.answer)
      t.match((await one.answer).data.callback_secret, /^whsec_/)
      t.equal(await service.collections.imports.countDocuments(), exists ? before : before + 1, moment)
    }
  },
)

t.test('imports that are created side by side on one list leave it as they found it', async (t) => {
  const { mailingLists } = service.collections
  const before = await mailingLists.findOne({ _id: withBoth.id })
  const replies = await Promise.all(
    Array.from({ length: 40 }, () =>
      create(
        { column_mapping: ['email'], file_source: json, begins_at: '2031-01-01T00:00:00Z' },
        withBoth.id,
      ),
    ),
  )
  t.ok(replies.every(({ body }) => body.success === true))
  const after = await mailingLists.findOne({ _id: withBoth.id })
  t.equal(after?.revision, before?.revision, 'a creation makes no other one begin anew')
  t.equal(after?.import_creations, (before?.import_creations ?? 0) + 40)
  for (const { body } of replies) await post(`/subscriber_imports/${body.data.id}/cancel`)
})

t.test('an import that is due waits for the first one of its list, and not for a dry run', async (t) => {
  const { id: listId } = await createList(service)
  const ids: number[] = []
  for (const dry_run of [true, false, false]) {
    const { body } = await create({ dry_run, column_mapping: ['email'], file_source: json }, listId)
    ids.push(body.data.id)
  }
  const views = await Promise.all(ids.map((id) => get(`/subscriber_imports/${id}`)))
  t.same(
    views.map(({ waiting_for_import_id }) => waiting_for_import_id),
    [null, null, ids[1]],
  )
  for (const id of ids) await post(`/subscriber_imports/${id}/cancel`)
})

t.test('imports are listed by scope, those that have not ended first', async (t) => {
  const ownList = await createList(service)
  const at = async (begins_at: string) =>
    (await create({ begins_at, column_mapping: ['email'], file_source: json }, ownList.id)).body.data
      .id as number
  const [late, early, ended, endedLater] = [
    await at('2101-01-01T00:00'),
    await at('2100-01-01T00:00'),
    await at('2100-01-01T00:00'),
    await at('2100-01-01T00:00'),
  ]
  await post(`/subscriber_imports/${ended}/cancel`)
  await post(`/subscriber_imports/${endedLater}/cancel`)
  const ids = async (query: string) =>
    (await get(`/mailing_lists/${ownList.id}/subscriber_imports${query}`)).map((view: Json) => view.id)
  t.same(await ids(''), [early, late, endedLater, ended])
  t.same(await ids('?scope=active'), [early, late])
  t.same(await ids('?scope=finished'), [endedLater, ended])
  await service.collections.imports.updateOne(
    { _id: ended },
    { $set: { finished_at: new Date(Date.now() - 15 * 24 * 3_600_000) } },
  )
  t.same(await ids('?scope=recent'), [early, late, endedLater])
  t.same(await ids('?scope=all'), [early, late, endedLater, ended])
  t.same(await ids('?scope=all&per_page=3&page=1'), [ended])
  t.same(await ids('?scope=all&per_page=3&page=0'), [early, late, endedLater])
  t.same(await ids('?scope=all&state=cancelled'), [endedLater, ended])
  t.same(await ids('?state=cancelled,scheduled'), [early, late, endedLater], 'within the scope')
  t.same(await ids('?state=paused'), [])
  t.same(await ids('?scope=all&view=full&per_page=3&page=1'), [ended])
  const [full] = await get(`/mailing_lists/${ownList.id}/subscriber_imports?view=full`)
  t.same(full, await get(`/subscriber_imports/${early}`), 'as when it is read alone')
  for (const query of ['state=gone', 'view=short'])
    t.match((await call('GET', `/mailing_lists/${ownList.id}/subscriber_imports?${query}`)).body, {
      error_code: 'invalid_request',
    })
  const [view] = await get(`/mailing_lists/${ownList.id}/subscriber_imports`)
  t.same(Object.keys(view), [
    ...['id', 'mailing_list_id', 'mailing_list_name', 'created_at'],
    ...['state', 'begins_at', 'finished_at', 'file_source', 'stats'],
  ])
  t.same(view.stats, { number_of_records: null, records_imported: 0 })
})

t.test('moves that are not possible are refused, and change nothing', async (t) => {
  const { id } = (
    await create({ begins_at: '2100-01-01T00:00', column_mapping: ['email'], file_source: json })
  ).body.data
  const move = async (name: string) => (await call('POST', `/subscriber_imports/${id}/${name}`)).body
  t.match(await move('unpause'), { error_code: 'validation_failed', error_message: /it is scheduled/ })
  t.match(await move('pause'), { data: { state: 'paused' } })
  t.match(await move('pause'), { error_code: 'validation_failed' })
  t.match(await move('unpause'), { data: { state: 'scheduled' } })
  t.match(await move('cancel'), { data: { state: 'cancelled', finished_at: String } })
  for (const name of ['pause', 'unpause', 'cancel'])
    t.match(await move(name), {
      error_code: 'validation_failed',
      error_message: /it is cancelled, and it has ended/,
    })
  t.match((await call('POST', '/subscriber_imports/999999/pause')).body, { error_code: 'not_found' })
  t.match((await call('GET', `/subscriber_imports/${id}/logs/added`)).body, { error_code: 'not_found' })
  t.match((await call('GET', `/subscriber_imports/${id}/logs/nothing`)).body, { error_code: 'not_found' })
})
