import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { basic, bootstrapKey, controlPlaneOrigin, createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, post } = service
const list = await post('/mailing_lists', { mailing_list: { name: 'Newsletter' } })
const imports = `/mailing_lists/${list.id}/subscriber_imports`

t.test('a success is 200 with the envelope, creations included', async (t) => {
  const answer = await call('POST', '/mailing_lists', { mailing_list: { name: 'Another' } })
  t.equal(answer.status, 200)
  t.match(answer.body, { success: true, data: { name: 'Another' }, error_code: null, error_message: null })
  t.match(answer.headers.get('content-type'), /^application\/json/)
})

t.test('a refused request is 200 too; the transport alone has statuses', async (t) => {
  const cases: [string, string, unknown, number, string][] = [
    ['GET', '/mailing_lists/999', undefined, 200, 'not_found'],
    ['GET', '/mailing_lists/abc', undefined, 200, 'not_found'],
    ['GET', '/mailing_lists/0', undefined, 200, 'not_found'],
    ['GET', '/mailing_lists/1e3', undefined, 200, 'not_found'],
    ['GET', '/mailing_lists/99999999999999999999', undefined, 200, 'not_found'],
    ['POST', '/mailing_lists', { mailing_list: { name: 5 } }, 200, 'validation_failed'],
    ['POST', '/mailing_lists', { list: {} }, 200, 'invalid_request'],
    ['POST', '/mailing_lists', { mailing_list: [] }, 200, 'invalid_request'],
    ['POST', '/mailing_lists', [], 200, 'invalid_request'],
    ['POST', '/mailing_lists', 'null', 200, 'invalid_request'],
    ['POST', '/mailing_lists', '{"mailing_list":', 200, 'invalid_request'],
    ['POST', '/mailing_lists', undefined, 200, 'invalid_request'],
    ['GET', '/mailing_lists?page=-1', undefined, 200, 'invalid_request'],
    ['GET', '/mailing_lists?per_page=0', undefined, 200, 'invalid_request'],
    ['GET', '/mailing_lists?page=1&page=2', undefined, 200, 'invalid_request'],
    ['GET', '/subscriber_imports?scope=none', undefined, 200, 'invalid_request'],
    ['GET', '/nowhere', undefined, 404, 'not_found'],
    ['GET', '/mailing_lists/%E0%A4%A', undefined, 404, 'not_found'],
    ['DELETE', '/mailing_lists', undefined, 405, 'invalid_request'],
  ]
  for (const [method, path, body, status, code] of cases) {
    const answer = await call(method, path, body)
    t.equal(answer.status, status, `${method} ${path} ${JSON.stringify(body)}`)
    t.match(answer.body, { success: false, data: null, error_message: String })
    t.equal(answer.body.error_code, code, `${method} ${path}`)
  }
})

t.test('a query key that is unknown is ignored and named, and a blank filter is none', async (t) => {
  const answer = await call('GET', '/subscriber_imports?scope=&sort=name&a%22%0d%0aX=1')
  t.match(answer.body, { success: true, per_page: 100 })
  t.equal(
    answer.headers.get('warning'),
    '299 - "ignored, as this endpoint has no such query parameter: sort, a%22%0D%0AX"',
  )
  t.equal((await call('GET', '/subscriber_imports?scope=recent')).headers.get('warning'), null)
  const repeated = await call('GET', '/subscriber_imports?sort=name&sort=id')
  t.match(repeated.body, { success: true }, 'also where it is given twice')
  t.match(repeated.headers.get('warning'), /: sort"$/)
  const blank = await call('GET', `/mailing_lists/${list.id}/subscribers?page=&per_page=%20&page_token=`)
  t.match(blank.body, { success: true, page: 0, per_page: 100 }, 'a blank page, size or token is none too')
  t.equal(blank.headers.get('warning'), null)
})

t.test('keys that a body has in vain are named in a header, at every depth', async (t) => {
  const warningOf = async (method: string, path: string, body: unknown) => {
    const answer = await call(method, path, body)
    t.equal(answer.body.success, true, answer.text)
    return answer.headers.get('warning')
  }
  const named = (keys: string) => `299 - "ignored, as this endpoint has no such key of the body: ${keys}"`
  t.equal(
    await warningOf('POST', '/mailing_lists?dry=1', {
      mailing_list: { name: 'Misspelt', hasFormat: true, 'a"\n': 1 },
      name: 'beside',
    }),
    `299 - "ignored, as this endpoint has no such query parameter: dry", ${named('hasFormat, a%22%0A, name beside mailing_list')}`,
  )
  const made = await post(`/mailing_lists/${list.id}/subscribers`, { subscriber: { email: 'w@example.com' } })
  t.equal(
    await warningOf('PUT', `/mailing_lists/${list.id}/subscribers/${made.id}`, { subscriber: made }),
    null,
    'what the reply has and a request can only repeat is no mistake',
  )
  t.equal(
    await warningOf('PUT', `/mailing_lists/${list.id}/subscribers/${made.id}`, {
      subscriber: { Status: 'bounced' },
    }),
    named('Status'),
  )
  t.equal(
    await warningOf('POST', '/delivery_events', {
      delivery_events: [
        { id: 'w1', type: 'delivered', occurred_at: '2026-11-21T09:00:00Z', message_id: '1', url: 'x' },
      ],
    }),
    named('delivery_events.0.url'),
  )
  t.equal(
    await warningOf('POST', `/mailing_lists/${list.id}/templates`, {
      campaign: { name: 'W', contents: [{ subjekt: 'x' }], dispatch_attributes: { sped: 1 } },
    }),
    named('contents.0.subjekt, dispatch_attributes.sped'),
  )
  const refused = await call('POST', '/mailing_lists', { mailing_list: { nmae: 'x' } })
  t.match(refused.body, { error_message: 'name is required' })
  t.equal(refused.headers.get('warning'), named('nmae'), 'a refusal says it too')
  const created = await call('POST', imports, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'a@b.co' },
      overwirte: true,
    },
  })
  t.equal(created.headers.get('warning'), null, 'an import says it in its warnings')
  t.match(created.body.data.warnings, [/overwirte/])
  const misspelt = { colum_mapping: ['email'], file_source: { type: 'json', content: 'a@b.co' } }
  const refusedImport = await call('POST', imports, { subscriber_import: misspelt })
  t.match(refusedImport.body, { error_message: 'column_mapping is required' })
  t.equal(refusedImport.headers.get('warning'), named('colum_mapping'), 'its refusal has no warnings')
  t.equal(
    await warningOf('POST', `${imports}/inspect`, { subscriber_import: misspelt }),
    named('colum_mapping'),
    'nor has an inspection an import',
  )
})

t.test('a body without its wrapper is told which to write', async (t) => {
  const told = async (path: string, body: unknown, message: string) => {
    const answer = await call('POST', path, JSON.stringify(body))
    const what = `${path} ${JSON.stringify(body)}`
    t.match(answer.body, { error_code: 'invalid_request', error_message: message }, what)
    t.equal(answer.headers.get('warning'), null, `${what}: no key of it is ignored alone`)
  }
  for (const body of [{ email: 'a@example.com' }, {}, [], null, { subscriber: [] }, { subscriber: 'x' }])
    await told(`/mailing_lists/${list.id}/subscribers`, body, 'the body must be {"subscriber": {...}}')
  await told('/delivery_events', [{ id: 'e1' }], 'the body must be {"delivery_events": [...]}')
})

t.test('where a hash is expected, null is none and an empty array is an empty one', async (t) => {
  const created = await call('POST', imports, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'a@b.co' },
      default_custom_fields: [],
      overwrite_what: [],
      overwrite_when_status: null,
      subscriber_defaults: [],
      autoresponders: { subscription: [], api: null },
      file_format: [],
    },
  })
  t.match(created.body, { success: true, data: { overwrite_what: { custom_fields: true } } })
  const path = `/mailing_lists/${list.id}/subscribers`
  const { id } = await post(path, { subscriber: { email: 'php@example.com', custom_fields: [] } })
  for (const custom_fields of [null, []])
    t.match((await call('PUT', `${path}/${id}`, { subscriber: { custom_fields, status: 'bounced' } })).body, {
      success: true,
      data: { status: 'bounced' },
    })
  t.match((await call('PUT', `${path}/${id}`, { subscriber: { custom_fields: ['x'] } })).body, {
    error_message: 'custom_fields must be a hash',
  })
  t.match(
    (await call('POST', imports, { subscriber_import: { column_mapping: [], file_source: [] } })).body,
    {
      error_message: /file_source.type is required/,
    },
  )
})

t.test('a sentence about a path shows all of it, as it was sent', async (t) => {
  const sentenceOf = async (method: string, path: string) => (await call(method, path)).body.error_message
  t.equal(
    await sentenceOf('GET', '/no%20where/5?key=secret'),
    'there is no endpoint at /svc/api/v2/no%20where/5',
  )
  t.equal(
    await sentenceOf('GET', '/mailing_lists/%E0%A4%A?key=secret'),
    '/svc/api/v2/mailing_lists/%E0%A4%A is no valid path of a URL: its %-escapes must be UTF-8',
  )
  t.equal(
    await sentenceOf('PATCH', '/mailing_lists/1/subscribers/a%2Bb@example.com?key=secret'),
    'PATCH is not possible at /svc/api/v2/mailing_lists/1/subscribers/a%2Bb@example.com, only GET, HEAD, PUT, DELETE',
  )
  const description = await fetch(`${controlPlaneOrigin(service)}/openapi.json?v=1`, { method: 'POST' })
  t.match(await description.json(), {
    error_message: 'POST is not possible at /openapi.json, only GET, HEAD',
  })
})

t.test('the beginning of a path has lower case only', async (t) => {
  const answer = await fetch(`${controlPlaneOrigin(service)}/SVC/api/v2/mailing_lists`, {
    headers: { authorization: basic(`api:${bootstrapKey}`) },
  })
  t.equal(answer.status, 404)
  t.match(await answer.json(), { error_message: 'there is no endpoint at /SVC/api/v2/mailing_lists' })
})

t.test('a known path with another method names the methods that are possible', async (t) => {
  const answer = await call('PATCH', '/mailing_lists', {})
  t.equal(answer.status, 405)
  t.equal(answer.headers.get('allow'), 'GET, HEAD, POST')
})

t.test('a body must be JSON in UTF-8 and within its limit', async (t) => {
  const text = await call('POST', '/mailing_lists', 'name=x', {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  t.equal(text.status, 415)
  t.match(text.body, {
    success: false,
    error_code: 'invalid_request',
    error_message:
      'the body must be sent with Content-Type: application/json, in UTF-8, not with "application/x-www-form-urlencoded"',
  })
  const latin = await call('POST', '/mailing_lists', '{}', {
    headers: { 'content-type': 'application/json; charset=utf-16' },
  })
  t.equal(latin.status, 415)
  for (const charset of ['UTF-8', 'utf8', '"utf-8"']) {
    const headers = { 'content-type': `application/json; charset=${charset}` }
    t.match((await call('POST', '/mailing_lists', '{', { headers })).body, { error_message: /valid JSON/ })
  }
  // Clients send these words for text that is not compressed.
  for (const word of ['identity', 'UTF-8', 'none', 'aws-chunked']) {
    const headers = { 'content-encoding': word }
    const answer = await call(
      'POST',
      '/mailing_lists',
      { mailing_list: { name: `Sent as ${word}` } },
      { headers },
    )
    t.match(answer.body, { success: true }, word)
  }
  for (const encoding of ['compress', 'gzip, gzip', 'br, zstd'])
    t.equal(
      (await call('POST', '/mailing_lists', {}, { headers: { 'content-encoding': encoding } })).status,
      415,
    )
  const large = await call('POST', '/mailing_lists', { mailing_list: { name: 'x'.repeat(1_100_000) } })
  t.equal(large.status, 413)
  const bomb = await call(
    'POST',
    '/mailing_lists',
    gzipSync(JSON.stringify({ mailing_list: { name: 'x'.repeat(5_000_000) } })),
    { headers: { 'content-encoding': 'gzip' } },
  )
  t.equal(bomb.status, 413, 'the limit is on what comes out')
  const packed = await call(
    'POST',
    '/mailing_lists',
    gzipSync(JSON.stringify({ mailing_list: { name: 'Packed' } })),
    { headers: { 'content-encoding': 'gzip' } },
  )
  t.match(packed.body, { success: true, data: { name: 'Packed' } })
  const labelled = await call(
    'POST',
    '/mailing_lists',
    gzipSync(JSON.stringify({ mailing_list: { name: 'Labelled' } })),
    { headers: { 'content-encoding': 'utf-8, x-gzip' } },
  )
  t.match(labelled.body, { success: true, data: { name: 'Labelled' } })
  const inline = await call('POST', imports, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'json', content: `${'a@b.co,'.padEnd(60, 'x')}\n`.repeat(60_000) },
    },
  })
  t.match(inline.body, { success: true }, 'inline content may be larger')
  const cases: [Buffer, RegExp][] = [
    [Buffer.from('{"mailing_list":{"name":"bad\xff"}}', 'latin1'), /not valid UTF-8/],
    [Buffer.from('{"mailing_list":{"name":"a\\ud800b"}}'), /half of a surrogate pair/],
    [Buffer.from('{"mailing_list":{"a\\udc00":[{}],"name":"b"}}'), /half of a surrogate pair/],
  ]
  for (const [body, message] of cases) {
    const { body: answer } = await call('POST', '/mailing_lists', body)
    t.match(answer, { success: false, error_code: 'invalid_request', error_message: message })
  }
  const whole = await call(
    'POST',
    '/mailing_lists',
    '{"mailing_list":{"name":"\\ud83d\\ude00 and \\\\ud800"}}',
  )
  t.match(whole.body, { success: true, data: { name: '😀 and \\ud800' } })
})

t.test('the checks come in their order: role, content type, record, body', async (t) => {
  const { key } = await post('/api_keys', { api_key: { name: 'nobody', role: 'standard' } })
  t.equal(
    (await call('POST', '/organizations', 'x', { key, headers: { 'content-type': 'text/plain' } })).status,
    403,
  )
  t.equal(
    (
      await call('POST', '/mailing_lists/999/subscriber_imports', 'x', {
        headers: { 'content-type': 'text/plain' },
      })
    ).status,
    415,
  )
  t.match(
    (await call('POST', '/mailing_lists/999/subscriber_imports', {})).body,
    { error_code: 'not_found' },
    'the record before the body',
  )
  t.match(
    (await call('POST', '/mailing_lists/999/subscriber_imports', '{')).body,
    { error_code: 'invalid_request' },
    'the JSON before the record',
  )
})

t.test('messages name the fields, one sentence each', async (t) => {
  const answer = await call('POST', imports, {
    subscriber_import: {
      overwrite: 'true',
      column_mapping: 'email',
      file_source: { type: 'json' },
      file_format: { date_format: 'ymd' },
    },
  })
  t.match(answer.body, {
    error_code: 'validation_failed',
    error_message:
      /^overwrite must be a boolean; column_mapping must be an array; file_format.date_format must be one of "mdy", "dmy"$/,
  })
  const missing = await call('POST', imports, { subscriber_import: {} })
  t.match(missing.body.error_message, /^column_mapping is required; file_source is required$/)
})

t.test('an explicit null on creation is the same as no key; unknown keys are ignored', async (t) => {
  const created = await post('/mailing_lists', {
    mailing_list: { name: 'Nulls', has_format: null, colour: 'red', id: 77 },
  })
  t.match(created, { has_format: false })
  t.not(created.id, 77)
  t.match((await call('POST', '/mailing_lists', { mailing_list: { name: null } })).body, {
    error_code: 'validation_failed',
    error_message: 'name is required',
  })
  t.match((await call('PUT', `/mailing_lists/${created.id}`, { mailing_list: { has_format: null } })).body, {
    error_code: 'validation_failed',
  })
})

t.test('names that objects have anyway are names like others', async (t) => {
  const body = `{"subscriber_import":{"column_mapping":["email","__proto__","constructor"],"default_custom_fields":{"__proto__":"x"},"file_source":{"type":"json","content":"a@b.co"}}}`
  const answer = await call('POST', imports, body)
  t.match(answer.body, {
    error_code: 'validation_failed',
    error_message: /column_mapping\.1 "__proto__" is neither/,
  })
})

t.test('a request has an id, the client’s where it is fit to be one', async (t) => {
  t.equal(
    (await call('GET', '/mailing_lists', undefined, { headers: { 'x-request-id': 'abc-1' } })).headers.get(
      'x-request-id',
    ),
    'abc-1',
  )
  t.match(
    (await call('GET', '/mailing_lists', undefined, { headers: { 'x-request-id': 'a b' } })).headers.get(
      'x-request-id',
    ),
    /^[0-9a-f-]{36}$/,
  )
})

t.test('pages are echoed, clamped, and counted', async (t) => {
  const answer = await call('GET', '/mailing_lists?page=1&per_page=2')
  t.match(answer.body, { success: true, page: 1, per_page: 2, num_records: Number, num_pages: Number })
  t.equal(answer.body.num_pages, Math.ceil(answer.body.num_records / 2))
  t.equal((await call('GET', '/mailing_lists?per_page=5000')).body.per_page, 2000)
  t.equal((await call('GET', '/subscriber_imports?per_page=5000')).body.per_page, 500)
  t.equal((await call('GET', '/subscriber_imports')).body.per_page, 100)
})

t.test('rubbish on the wire neither ends the process nor shows a stack', async (t) => {
  const { hostname, port } = new URL(service.processes['control-plane']!.ready.http!)
  const reply = await new Promise<string>((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.end('GET /svc HTTP/9.9\r\n\0\0\r\n\r\n'))
    let text = ''
    socket.on('data', (data) => (text += data.toString())).on('close', () => resolve(text))
  })
  t.match(reply, /^HTTP\/1\.1 400/)
  t.notMatch(reply, /node:|at /)
  t.equal(
    (
      await call('GET', '/mailing_lists', undefined, {
        headers: { authorization: basic(`api:${bootstrapKey}`) },
      })
    ).status,
    200,
  )
})

t.test('one answer has all faults that a schema finds, or else all of the settings together', async (t) => {
  const { id } = await createList(service)
  const fieldMessage = async (field: Json): Promise<string> =>
    (await call('POST', `/mailing_lists/${id}/custom_fields`, { custom_field: field })).body.error_message
  const settings = { name: 'email', field_type: 'text', maximum_value: 5 }
  t.match(
    await fieldMessage({ ...settings, required: 'x', minimum_length: -1 }),
    /^(required must be a boolean|minimum_length must be at least 0)(; (?!\1)(required|minimum_length) [^;]*)$/,
  )
  t.equal(
    await fieldMessage(settings),
    'name "email" is that of a built-in column; minimum_value and maximum_value are not possible for a field of type text',
  )
})
