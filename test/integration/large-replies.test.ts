import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { basic, bootstrapKey, createList, importText, startService, type Json } from '../helpers/service.ts'
import { standardUser } from '../helpers/standard-user.ts'

/** An organization may have large records, but no reply, request or import grows with all of them. */

const service = await startService(t, ['control-plane', 'engine'])
const { call, collections, db, post } = service
const base = service.processes['control-plane']!.ready.http!
const maxPageBytes = 8_000_000
/** The size of the envelope around the records. */
const envelopeBytes = 1_000

interface Walked {
  records: Json[]
  pages: Json[]
}

/** Reads all records of a list, by its tokens from the first page on; each reply must stay within its bounds. */
async function walk(t: Test, path: string): Promise<Walked> {
  const records: Json[] = []
  const pages: Json[] = []
  const separator = path.includes('?') ? '&' : '?'
  let token: string | null = null
  do {
    const query: string = token === null ? '' : `${separator}page_token=${token}`
    const { body, text } = await call('GET', `${path}${query}`)
    t.ok(
      Buffer.byteLength(text) <= maxPageBytes + envelopeBytes,
      `${path}: page ${pages.length} has ${text.length} characters`,
    )
    records.push(...body.data)
    pages.push({ ...body, data: body.data.length })
    token = body.next_page_token
  } while (token !== null)
  return { records, pages }
}

const idsOf = (records: readonly Json[]): number[] => records.map(({ id }) => id)

/** Runs something, and returns how many bytes the database sent for a collection meanwhile. */
async function bytesRead(collection: string, work: () => Promise<unknown>): Promise<number> {
  await db.command({ profile: 2 })
  try {
    await work()
  } finally {
    await db.command({ profile: 0 })
  }
  const ns = `${db.databaseName}.${collection}`
  const replies = await db
    .collection('system.profile')
    .find({ ns, op: { $in: ['query', 'getmore', 'command'] } })
    .toArray()
  t.ok(replies.length > 0, `${collection} was read`)
  await db.collection('system.profile').drop()
  return replies.reduce((sum, { responseLength = 0 }) => sum + Number(responseLength), 0)
}

async function fillFields(listId: number, amount: number): Promise<void> {
  const field = await post(`/mailing_lists/${listId}/custom_fields`, {
    custom_field: { name: 'Field 0', field_type: 'text' },
  })
  const document = (await collections.customFields.findOne({ _id: field.id }))!
  const name = (i: number) => `Field ${i} with a name that is as long as may be`
  await collections.customFields.insertMany(
    Array.from({ length: amount - 1 }, (_, i) => ({
      ...document,
      _id: 1_000_000 + listId * 1_000 + i,
      name: name(i + 1),
      name_key: name(i + 1).toLowerCase(),
    })),
  )
}

t.test(
  '500 subscribers with 500 fields each come in pages of 8 MB, none twice and none left out',
  async (t) => {
    const list = await createList(service)
    await fillFields(list.id, 500)
    await importText(
      service,
      list.id,
      ['email', ...Array.from({ length: 500 }, (_, i) => `p${i}@example.com`)].join('\n'),
    )
    const path = `/mailing_lists/${list.id}/subscribers?per_page=500`
    const { records, pages } = await walk(t, path)
    t.equal(new Set(idsOf(records)).size, 500)
    t.equal(records.length, 500)
    t.ok(pages.length > 1, `there are ${pages.length} pages`)
    for (const page of pages) t.match(page, { num_records: 500, num_pages: 1, per_page: 500 })
    t.equal(Object.keys(records[0].custom_fields).length, 500)

    const numbered = await call('GET', `${path}&page=0`)
    t.same(idsOf(numbered.body.data), idsOf(records).slice(0, numbered.body.data.length))
    t.match(numbered.body, { page: 0, num_records: 500, next_page_token: String })

    const packed = await fetch(`${base}/svc/api/v2${path}`, {
      headers: { authorization: basic(`api:${bootstrapKey}`), 'accept-encoding': 'gzip' },
    })
    t.equal(packed.headers.get('content-encoding'), 'gzip')
    t.same(idsOf(((await packed.json()) as Json).data), idsOf(numbered.body.data), 'packed too')

    const together = await Promise.all(Array.from({ length: 12 }, () => call('GET', path)))
    t.same(
      together.map(({ status, body }) => [status, body.data.length]),
      together.map(() => [200, numbered.body.data.length]),
      'twelve at once are answered',
    )
  },
)

t.test('a list gets no more than 500 fields from concurrent requests', async (t) => {
  const list = await createList(service)
  await fillFields(list.id, 498)
  const path = `/mailing_lists/${list.id}/custom_fields`
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, i) =>
      call('POST', path, { custom_field: { name: `Last ${i}`, field_type: 'number' } }),
    ),
  )
  t.equal(answers.filter(({ body }) => body.success).length, 2)
  t.match(
    answers.find(({ body }) => !body.success)!.body.error_message,
    /has 500 custom fields, and at most 500 are possible/,
  )
  t.equal(await collections.customFields.countDocuments({ mailing_list_id: list.id }), 500)
})

async function addAutoresponders(listId: number, amount: number): Promise<void> {
  const one = await post(`/mailing_lists/${listId}/autoresponders`, {
    autoresponder: {
      name: 'Number 0',
      trigger: 'subscription',
      from_email: 'news@example.com',
      content_subject: 'Welcome',
      content_html: 'x',
    },
  })
  const document = (await collections.autoresponders.findOne({ _id: one.id }))!
  await collections.autoresponders.insertMany(
    Array.from({ length: amount - 1 }, (_, i) => ({
      ...document,
      _id: 1_000_000 + listId * 1_000 + i,
      name: `Number ${i + 1}`,
      name_key: `number ${i + 1}`,
      content_html: 'x'.repeat(1_000_000),
    })),
  )
}

t.test('replies with autoresponders of a megabyte each are bounded', async (t) => {
  const list = await createList(service)
  await addAutoresponders(list.id, 30)
  const path = `/mailing_lists/${list.id}/autoresponders`
  const { records, pages } = await walk(t, path)
  t.equal(new Set(idsOf(records)).size, 30)
  t.same(
    pages.map(({ data }) => data),
    [8, 7, 7, 7, 1],
  )
  const named = await walk(t, `${path}?name=*1*`)
  t.equal(named.records.length, 12, 'the filter goes with the token')
  const token = pages[0].next_page_token
  t.match((await call('GET', `${path}?name=*1*&page_token=${token}`)).body, {
    error_code: 'invalid_request',
    error_message: /page_token/,
  })
  const minimal = await call('GET', `${path}?minimal=true`)
  t.equal(minimal.body.data.length, 30)
  t.same(Object.keys(minimal.body.data[0]), ['id', 'name'])
  t.equal(minimal.body.next_page_token, null)

  const referenced = minimal.body.data[0].id
  await collections.autoresponders.updateOne({ _id: referenced }, { $set: { trigger: 'api' } })
  const bytes = await bytesRead('autoresponders', () =>
    post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        begins_at: '2030-01-31T08:00:00Z',
        column_mapping: ['email'],
        autoresponders: { api: { trigger_new: { id: referenced } } },
        file_source: { type: 'json', content: 'ann@example.com' },
      },
    }),
  )
  t.ok(bytes < 100_000, `creating an import with one of them reads ${bytes} bytes of 29 MB`)
})

t.test('a reply that its client doesn’t read delays no other request', async (t) => {
  const list = await createList(service)
  await addAutoresponders(list.id, 12)
  const { hostname, port } = new URL(base)
  const path = `/svc/api/v2/mailing_lists/${list.id}/autoresponders`
  const sockets = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      socket.pause()
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: h\r\nAuthorization: ${basic(`api:${bootstrapKey}`)}\r\n\r\n`,
      )
      return socket
    }),
  )
  t.equal((await call('GET', '/organizations')).status, 200)
  t.equal((await fetch(`${base}/healthz`)).status, 200)
  for (const socket of sockets) socket.destroy()
  t.equal((await call('GET', `/mailing_lists/${list.id}/autoresponders`)).body.data.length, 8)
})

t.test('replies with confirmation forms, and with users of many recipients, are bounded', async (t) => {
  const list = await createList(service)
  const path = `/mailing_lists/${list.id}/confirmation_forms`
  const large = `%%confirmation_url%%${'x'.repeat(490_000)}`
  for (let i = 0; i < 12; i += 1)
    await post(path, { confirmation_form: { name: `Form ${i}`, html: large, text: large } })
  const forms = await walk(t, path)
  t.equal(new Set(idsOf(forms.records)).size, 12)
  t.same(
    forms.pages.map(({ data, num_records: total }) => [data, total]),
    [
      [8, 12],
      [4, 12],
    ],
  )
  const user = await post('/users', { user: standardUser })
  const document = (await collections.users.findOne({ _id: user.id }))!
  await collections.users.insertMany(
    Array.from({ length: 299 }, (_, i) => ({
      ...document,
      _id: 1_000_000 + i,
      email: `user${i}@example.com`,
      email_key: `user${i}@example.com`,
      default_preview_recipients: Array<string>(100).fill(`${'x'.repeat(300)}@example.com`),
    })),
  )
  for (const order of ['id', 'email']) {
    const { records, pages } = await walk(t, `/users?order_by=${order}`)
    t.equal(new Set(idsOf(records)).size, 300, `by ${order}`)
    t.ok(pages.length === 2 && pages.every((page) => page.num_records === 300 && page.num_pages === 1))
  }
})

t.test('imports and jobs are walked by tokens, and their plans stay in the database', async (t) => {
  const list = await createList(service)
  const ended = []
  for (let i = 0; i < 3; i += 1) ended.push(await importText(service, list.id, `email\na${i}@example.com`))
  const begins = ['2031-01-31T08:00:00Z', '2030-01-31T08:00:00Z', '2030-01-31T08:00:00Z']
  const active = []
  for (const begins_at of begins)
    active.push(
      await post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: {
          begins_at,
          column_mapping: ['email'],
          file_source: { type: 'json', content: 'ann@example.com' },
        },
      }),
    )
  const order = [active[1], active[2], active[0], ended[2], ended[1], ended[0]]
  for (const perPage of [1, 2, 4, 500]) {
    const path = `/mailing_lists/${list.id}/subscriber_imports?per_page=${perPage}`
    const { records, pages } = await walk(t, path)
    t.same(idsOf(records), idsOf(order), `${perPage} a page`)
    t.ok(pages.every((page) => page.num_records === 6 && page.num_pages === Math.ceil(6 / perPage)))
  }
  const jobs = await walk(t, '/jobs/all?per_page=2')
  t.same(
    idsOf(jobs.records),
    idsOf(jobs.records).toSorted((a, b) => b - a),
  )
  t.equal(new Set(idsOf(jobs.records)).size, jobs.pages[0].num_records)

  await collections.imports.updateMany(
    { mailing_list_id: list.id },
    {
      $set: { 'options.default_custom_fields': { Note: 'x'.repeat(1_000_000) } },
    },
  )
  for (const path of [`/mailing_lists/${list.id}/subscriber_imports`, '/jobs/all']) {
    const bytes = await bytesRead('imports', () => service.get(path))
    t.ok(bytes < 100_000, `${path} reads ${bytes} bytes of 6 MB`)
  }
})

/** A name in many spellings of the same length: in either case, with blanks around it. */
function* spellings(name: string): Generator<string> {
  for (let blanks = 0; blanks < 30; blanks += 1)
    for (let cases = 0; cases < 2 ** name.length; cases += 1) {
      const spelled = Array.from(name, (letter, i) => (cases & (1 << i) ? letter.toUpperCase() : letter))
      yield `${' '.repeat(blanks)}${spelled.join('')}${' '.repeat(29 - blanks)}`
    }
}

t.test('900 kB of faults are answered shortly, also on a list with 500 fields', async (t) => {
  const metrics = service.processes['control-plane']!.ready.metrics['control_plane']!
  const cpuSeconds = async () =>
    Number(/^process_cpu_seconds_total (\S+)$/m.exec(await (await fetch(metrics)).text())![1])
  const [few, many] = [await createList(service), await createList(service)]
  for (const { id } of [few, many]) {
    const options = Array.from({ length: 20 }, (_, i) => String(i).padEnd(255, 'x'))
    await post(`/mailing_lists/${id}/custom_fields`, {
      custom_field: { name: 'boxes', field_type: 'select_multiple_checkboxes', options },
    })
    await post(`/mailing_lists/${id}/subscribers`, { subscriber: { email: 'a@example.com' } })
  }
  await fillFields(many.id, 499)
  await collections.customFields.updateMany({ mailing_list_id: many.id }, { $set: { required: true } })
  await collections.mailingLists.updateOne({ _id: many.id }, { $inc: { revision: 1 } })

  // A body may have 50,000 values.
  const unknown = Object.fromEntries(Array.from({ length: 49_000 }, (_, i) => [`field ${i}`, 1]))
  const wrong = Object.fromEntries([...spellings('boxes')].slice(0, 24_000).map((name) => [name, ['x']]))
  /** default_custom_fields may have 256 KiB. */
  const fewer = (fields: Json) => Object.fromEntries(Object.entries(fields).slice(0, 9_000))
  const longNamed = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [String(i).repeat(100_000), 1]))
  const columns = Array.from({ length: 2_000 }, (_, i) => `f${i}`)
  const file_source = { type: 'json', content: 'a@example.com' }
  const requests: [method: string, path: string, body: (fields: Json) => Json, ...fields: Json[]][] = [
    [
      'POST',
      'subscribers',
      (custom_fields) => ({ subscriber: { email: 'b@example.com', custom_fields } }),
      ...[unknown, wrong, longNamed],
    ],
    [
      'PUT',
      'subscribers/a@example.com',
      (custom_fields) => ({ subscriber: { custom_fields } }),
      ...[unknown, wrong, longNamed],
    ],
    [
      'POST',
      'subscribers/a@example.com/trigger_autoresponders',
      (for_new) => ({ autoresponder_names: ['*'], custom_fields: { for_new } }),
      ...[unknown, wrong, longNamed],
    ],
    [
      'POST',
      'subscribers/a@example.com/trigger_autoresponders',
      (content_replacement_fields) => ({ autoresponder_names: ['*'], content_replacement_fields }),
      ...[unknown, longNamed],
    ],
    [
      'POST',
      'subscriber_imports',
      (default_custom_fields) => ({
        subscriber_import: { column_mapping: ['email'], default_custom_fields, file_source },
      }),
      ...[fewer(unknown), fewer(wrong), longNamed],
    ],
    [
      'POST',
      'subscriber_imports',
      (column_mapping) => ({ subscriber_import: { column_mapping, file_source } }),
      ...[columns, Object.keys(longNamed)],
    ],
  ]
  for (const [method, path, body, ...all] of requests)
    for (const [i, fields] of all.entries()) {
      const seconds: number[] = []
      for (const { id } of [few, many]) {
        const before = await cpuSeconds()
        const answer = await call(method, `/mailing_lists/${id}/${path}`, body(fields))
        seconds.push((await cpuSeconds()) - before)
        t.equal(answer.body.success, false, `${method} ${path} ${i}`)
        t.ok(answer.text.length < 60_000, `${method} ${path} ${i}: ${answer.text.length} characters`)
        t.ok(
          Object.keys(fields).length < 100 || /; and \d+ more problems$/.test(answer.body.error_message),
          answer.text.slice(-100),
        )
      }
      t.ok(seconds[1]! < 4 * seconds[0]! + 0.2, `${method} ${path} ${i}: ${seconds.join(' and ')} s`)
    }
})
