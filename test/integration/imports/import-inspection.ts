import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { callerOf, countsOf, createList, importEnd, startProcess, type Json } from '../../helpers/service.ts'
import { storedUploads } from '../../helpers/stored-uploads.ts'
import { service } from './service.ts'

const inspect = (listId: number, subscriber_import: Record<string, unknown>): Promise<Json> =>
  service.post(`/mailing_lists/${listId}/subscriber_imports/inspect`, { subscriber_import })
const inline = (content: string) => ({ file_source: { type: 'json', content } })
const fields = [
  { name: 'First name', field_type: 'text' },
  { name: 'Birthday', field_type: 'date' },
  { name: 'Plan', field_type: 'select_single_dropdown', options: ['Free', 'Gold'] },
]

t.test('says how many records say no to mail, whether their column is mapped or not', async (t) => {
  const { id } = await createList(service)
  const people = (header: string, cells: string[], records: number) =>
    [
      `Email,${header}`,
      ...Array.from({ length: records }, (_, i) => `p${i}@example.com,${cells[i % cells.length]}`),
    ].join('\n')
  const saidOf = async (content: string, more: Json = {}) => {
    const { column_mapping, warnings } = await inspect(id, { ...inline(content), ...more })
    return { column_mapping, said: warnings.filter((text: string) => text.includes('says no')) }
  }
  const shop = people('Accepts Email Marketing', ['yes', 'no'], 2_666)
  t.same(await saidOf(shop), {
    column_mapping: ['email', 'consent'],
    said: [
      'column 2 "Accepts Email Marketing" says no in 1333 of the first 2666 records, and is mapped to consent: they are not added as active subscribers',
    ],
  })
  t.same(await saidOf(shop, { column_mapping: ['email', null] }), {
    column_mapping: ['email', null],
    said: [
      'column 2 "Accepts Email Marketing" says no in 1333 of the first 2666 records, and is not mapped: they are imported like all others',
    ],
  })
  const counts: [header: string, cells: string[], proposed: string | null, no: number][] = [
    ['Status', ['Subscribed', 'cleaned', 'Unsubscribed', ''], 'status', 2],
    ['UNSUB_TIME', ['2024-01-31 10:00:00', ''], 'remove_time', 2],
    ['unsubscribed_at', ['2024-01-31 10:00:00', '0000-00-00 00:00:00', 'NULL', '\\N'], 'remove_time', 1],
    ['Iscritto', ['sì', 'no'], 'consent', 2],
    ['Newsletter', ['="yes"', '="no"'], 'consent', 2],
    ['No newsletter', ['1', '0', '0', '0'], null, 1],
    ['Email Opt Out', ['true', 'false', 'false', ''], null, 1],
    ['Email Suppressions', ['', '', '', 'USER_SUPPRESSED'], null, 1],
    ['Newsletter', ['ja?', 'not sure', 'subscribed', 'not subscribed'], 'consent', 1],
    ['Marketing contact status', ['Marketing contact', 'Non-marketing contact'], null, 0],
  ]
  for (const [header, cells, proposed, no] of counts) {
    const { column_mapping, said } = await saidOf(people(header, cells, 4))
    t.same(column_mapping, ['email', proposed], header)
    t.same(
      said.map((text: string) => Number(/says no in (\d+) of the first 4 records/.exec(text)?.[1])),
      no === 0 ? [] : [no],
      header,
    )
  }
  const left = people('UNSUB_TIME', ['2024-01-31 10:00:00'], 4)
  t.match(
    await saidOf(left, { subscriber_defaults: { status: 'active' } }),
    { said: [] },
    'a time says nothing beside a status of the request',
  )
})

t.test('cells that a spreadsheet protects are proposed by their text', async (t) => {
  const { id } = await createList(service, [...fields, { name: 'N', field_type: 'number' }])
  const content =
    'Email,N,Birthday,Plan\na@example.com,="5",="31.12.2026",="gold"\n="b@example.com",="7",="",="Free"'
  t.match(await inspect(id, inline(content)), {
    column_mapping: ['email', 'N', 'Birthday', 'Plan'],
    columns: [
      { samples: ['a@example.com', 'b@example.com'] },
      { samples: ['5', '7'] },
      { samples: ['31.12.2026'] },
      { samples: ['gold', 'Free'] },
    ],
    records: [{ result: 'added' }, { result: 'added' }],
    warnings: [],
  })
})

t.test('tells how a file reads, what its columns are, and what would become of its records', async (t) => {
  const { id } = await createList(service, fields)
  const content = [
    'E-Mail;Vorname;Birthday;plan;Source',
    'ann@example.com;Ann;31/12/1990;gold;fair',
    'bob@example;Bob;01/02/1990;free;fair',
    'ANN@example.com;Anna;;;web',
    'eve@example.com;"Eve; the first";13/02/1990;Platinum;',
    'joe@example.com;;;;',
  ].join('\n')
  const view = await inspect(id, inline(content))
  t.match(view, {
    character_set: 'utf-8',
    csv_field_separator: ';',
    csv_field_enclosure: '"',
    csv_has_headers: true,
    date_format: 'dmy',
    column_mapping: ['email', 'First name', 'Birthday', 'Plan', null],
    import_error: null,
    warnings: [],
  })
  t.same(
    view.columns.map(({ header, samples, proposed }: Json) => [header, samples[0], proposed]),
    [
      ['E-Mail', 'ann@example.com', 'email'],
      ['Vorname', 'Ann', 'First name'],
      ['Birthday', '31/12/1990', 'Birthday'],
      ['plan', 'gold', 'Plan'],
      ['Source', 'fair', null],
    ],
  )
  t.ok(view.columns.every(({ confidence }: Json) => confidence >= 0 && confidence <= 1))
  t.same(
    view.records.map(({ record, result }: Json) => [record, result]),
    [
      [1, 'added'],
      [2, 'failed'],
      [3, 'skipped_duplicate'],
      [4, 'failed'],
      [5, 'added'],
    ],
  )
  t.same(view.records[0].values, {
    email: 'ann@example.com',
    'First name': 'Ann',
    Birthday: '1990-12-31',
    Plan: 'Gold',
  })
  t.match(view.records[1].error, /^email: 'bob@example' is not an email address$/)
  t.match(view.records[3].error, /^Plan: 'Platinum' is not/)
  t.same(view.records[4].values, { email: 'joe@example.com', 'First name': null, Birthday: null, Plan: null })

  for (const collection of ['imports', 'subscribers', 'chunks', 'failures', 'outcomes'])
    t.equal(
      await service.db.collection(collection).countDocuments(),
      0,
      `nothing is written to ${collection}`,
    )
})

t.test('an inspection says what the import then does, also with existing subscribers', async (t) => {
  const { id } = await createList(service, fields)
  const put = (email: string, status: string) =>
    service.post(`/mailing_lists/${id}/subscribers`, { subscriber: { email, status } })
  await put('old@example.com', 'active')
  await put('gone@example.com', 'unsubscribed')
  const content = [
    'ann@example.com,Ann',
    'old@example.com,Old',
    'gone@example.com,Gone',
    'OLD@example.com,Again',
    ' ,nobody',
    'long@example.com,a,b,c',
    '"open@example.com,x',
  ].join('\r\n')
  for (const overwrite of [false, true]) {
    const options = { overwrite, column_mapping: ['email', 'First name'], dry_run: true, ...inline(content) }
    const { csv_has_headers, column_mapping, records } = await inspect(id, options)
    const created = await service.post(`/mailing_lists/${id}/subscriber_imports`, {
      subscriber_import: { ...options, column_mapping, file_format: { csv_has_headers } },
    })
    const view = await importEnd(service, created.id)
    t.equal(csv_has_headers, false)
    const counts: Record<string, number> = {}
    for (const { result } of records) counts[result] = (counts[result] ?? 0) + 1
    t.same(counts, countsOf(view), `overwrite ${overwrite}`)
    const log: Json = await service.call('GET', `/subscriber_imports/${created.id}/logs/failed`)
    for (const { result, error } of records)
      if (result === 'failed') t.ok(log.text.includes(error), `${error} is what the log says`)
  }
})

t.test('heeds the limit, the primary key and what is given', async (t) => {
  const organization = await service.post('/organizations', {
    organization: { name: 'Small', subscriber_limit: 1 },
  })
  const { id } = await createList(service, [{ name: 'Number', field_type: 'number', required: true }], {
    organization_id: organization.id,
  })
  const full = await inspect(id, inline('email,Number\na@example.com,1\nb@example.com,2\n'))
  t.same(
    full.records.map(({ result }: Json) => result),
    ['added', 'skipped_over_limit'],
  )
  const inspected = await inspect(id, {
    file_format: { csv_field_separator: ',', csv_has_headers: false },
    column_mapping: ['email'],
    ...inline('email;Number\na@example.com;1\n'),
  })
  t.match(
    inspected,
    { csv_field_separator: ',', csv_has_headers: false, column_mapping: ['email'] },
    'the reply has what the records were read with',
  )
  t.equal(inspected.records.length, 2, 'a line that is said to be a record is one')
  t.equal(inspected.warnings.length, 1)
  t.match(inspected.warnings[0], /csv_field_separator is ",", and the file looks as if it were ";"/)

  const headless = await inspect(id, {
    file_format: { csv_has_headers: true },
    column_mapping: [null, 'email'],
    ...inline('a@b.co,ab\nx,c@c.cc'),
  })
  t.match(headless.warnings, [
    /the header row holds an email address \(a@b\.co\)/,
    /csv_has_headers is true, and the file looks as if it were false/,
  ])

  const [field] = await service.get(`/mailing_lists/${id}/custom_fields`)
  await service.call('PUT', `/mailing_lists/${id}`, {
    mailing_list: { primary_key_custom_field_id: field.id },
  })
  const keyed = await inspect(id, inline('Number,Mail\n7,a@example.com\n007,b@example.com\n'))
  t.same(
    keyed.records.map(({ result }: Json) => result),
    ['added', 'skipped_duplicate'],
  )
  const lacking = await inspect(id, inline('Mail\na@example.com\n'))
  t.match(lacking, { import_error: /"Number", the primary key of the list/, records: [] })
})

t.test('writes nothing, however much it is given', async (t) => {
  const { id } = await createList(service, [])
  const content = `email\n${'ann@example.com\n'.repeat(100_000)}`
  const create = async () =>
    (
      await service.post(`/mailing_lists/${id}/subscriber_imports`, {
        subscriber_import: { column_mapping: ['email'], dry_run: true, ...inline('email\na@example.com\n') },
      })
    ).id as number
  const before = await create()
  const view = await inspect(id, inline(content))
  t.equal(view.records.length, 20)
  t.match(view.records[1], { result: 'skipped_duplicate' })
  const odd = await service.call('POST', `/mailing_lists/${id}/subscriber_imports/inspect`, {
    subscriber_import: inline(`${'x'.repeat(2e6)}\ud800`),
  })
  t.equal(odd.body.error_code, 'invalid_request', 'what is no text is refused wherever it is')
  t.equal(await create(), before + 1, 'no id is taken for what is only looked at')
  await importEnd(service, before + 1)
})

t.test('reads uploads and URLs, of any size and in any character set', async (t) => {
  const { id, organization_id } = await createList(service, fields)
  const upload = async (filename: string, bytes: Uint8Array) => {
    await storedUploads(service, organization_id).put(filename, bytes)
    return inspect(id, { file_source: { type: 'upload_directory', filename } })
  }
  const text = 'Email\tVorname\njörg@example.com\tJörg\nann@example.com\tÄnn\n'
  t.match(await upload('latin.csv', Buffer.from(text, 'latin1')), {
    character_set: 'windows-1252',
    csv_field_separator: '\t',
    records: [{ result: 'failed' }, { result: 'added', values: { 'First name': 'Änn' } }],
  })
  const windows = Buffer.from('Email,First name\nann@example.com,x\n')
  windows[windows.lastIndexOf('x')] = 0x80
  t.match(await upload('windows.csv', windows), {
    character_set: 'windows-1252',
    columns: [{ samples: ['ann@example.com'] }, { samples: ['€'] }],
    warnings: [],
    records: [{ result: 'added', values: { 'First name': '€' } }],
  })
  t.match(await upload('wide.csv', Buffer.from(`\ufeff${text}`, 'utf16le')), {
    character_set: 'utf-16le',
    columns: [{ proposed: 'email' }, { proposed: 'First name', samples: ['Jörg', 'Änn'] }],
    import_error: null,
    records: [{ result: 'failed' }, { result: 'added', values: { 'First name': 'Änn' } }],
  })
  t.match(
    await upload('unmarked.csv', Buffer.from(text, 'utf16le')),
    { character_set: 'utf-16le', import_error: null, records: [{ result: 'failed' }, { result: 'added' }] },
    'UTF-16 is proposed without a mark too, where no character set is given',
  )
  t.match(await upload('bars.csv', Buffer.from('Email|First name\nann@example.com|Ann\n')), {
    csv_field_separator: '|',
    import_error: null,
    records: [{ result: 'added', values: { 'First name': 'Ann' } }],
  })
  const large = Buffer.from(`email\n${'x'.repeat(200)}@example.com\nann@example.com\n`.repeat(10_000))
  const packed = await upload('large.csv.gz', gzipSync(large))
  t.match(packed, { csv_has_headers: true, import_error: null })
  t.equal(packed.records.length, 20)

  let isClosed = false
  const server = createServer((_, response) => {
    response.on('close', () => (isClosed = true))
    response.write(large)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/subscribers.csv`
  const view = await inspect(id, { file_source: { type: 'url', url } })
  t.equal(view.records.length, 20, 'what is behind the first MB is not waited for')
  t.same(view.column_mapping, ['email'])
  t.ok(isClosed)
})

t.test('a stop ends the reading of a URL with 503', async (t) => {
  const { id } = await createList(service)
  const server = createServer()
  const asked = once(server, 'request')
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const beside = await startProcess('control-plane', service.settings)
  t.teardown(() => beside.stop())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/subscribers.csv`
  const path = `/mailing_lists/${id}/subscriber_imports/inspect`
  const inspected = callerOf(() => beside.ready.http!)('POST', path, {
    subscriber_import: { file_source: { type: 'url', url } },
  })
  await asked
  const ended = beside.stop()
  const { status, headers, body } = await inspected
  t.match([status, headers.get('retry-after')], [503, '1'])
  t.match(body, { error_code: 'internal_error', error_message: /is stopping and did not do this/ })
  t.equal(await ended, 0)
  t.notMatch(beside.log(), '"level":"error"')
})
