import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Webhook } from 'standardwebhooks'
import t, { type Test } from 'tap'
import { errorMessage } from '../../shared/contract/errors.ts'
import { noCounts } from '../../shared/contract/schemas/import.ts'
import { startHastyEngine } from '../helpers/downloads.ts'
import { Engines } from '../helpers/engines.ts'
import { createList, importEnd, startProcess, startService, until, type Json } from '../helpers/service.ts'

/** Passwords, tokens and secrets of imports are encrypted while they are needed, and gone when they aren't. */

const planted = {
  sourcePassword: 'planted-source-password',
  sourceToken: 'planted-source-token',
  callbackPassword: 'planted-callback-password',
  callbackToken: 'planted-callback-token',
}

interface Request {
  url: string
  authorization: string | undefined
  body: string
  headers: Record<string, string>
  response: ServerResponse
}

/** Serves the file for the right password and token; callbacks wait until the test answers them. */
const callbacks: Request[] = []
const web = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (piece: string) => (body += piece))
  request.on('end', () => {
    const url = request.url!
    const { authorization } = request.headers
    if (url.startsWith('/hook'))
      callbacks.push({
        url,
        authorization,
        body,
        headers: request.headers as Record<string, string>,
        response,
      })
    else if (
      authorization === basic('ann', planted.sourcePassword) &&
      url.endsWith(`token=${planted.sourceToken}&list=5`)
    )
      response.end('email\nann@example.com\n')
    else response.writeHead(403).end()
  })
})
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
const host = `127.0.0.1:${(web.address() as AddressInfo).port}`
t.teardown(() => {
  web.close()
  web.closeAllConnections()
})

const basic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

const sourceUrl = `http://ann:${planted.sourcePassword}@${host}/rows.csv?token=${planted.sourceToken}&list=5`
const callbackUrl = `http://bob:${planted.callbackPassword}@${host}/hook?key=${planted.callbackToken}`
/** The URLs in views before the end, as before there was encryption. */
const shown = {
  url: sourceUrl.replace(planted.sourcePassword, '***'),
  callbackUrl: callbackUrl.replace(planted.callbackPassword, '***'),
}
const shownAtEnd = {
  url: shown.url.replace(planted.sourceToken, '***'),
  callbackUrl: shown.callbackUrl.replace(planted.callbackToken, '***'),
}

type Service = Awaited<ReturnType<typeof startService>>

/** Names the collections that contain one of the secrets, plain or encoded. */
async function leaks({ db }: Service, secrets: Record<string, string>): Promise<string[]> {
  const found: string[] = []
  for (const { name } of await db.listCollections().toArray()) {
    const documents = db.collection(name).find({}, { raw: true })
    for await (const document of documents) {
      const bytes = Buffer.from(document as unknown as Uint8Array)
      for (const [secret, text] of Object.entries(secrets))
        for (const form of [
          text,
          Buffer.from(text)
            .toString('base64')
            .replace(/.{2}=*$/, ''),
          text.replace('whsec_', ''),
        ])
          if (bytes.includes(form)) found.push(`${name} has ${secret}`)
    }
  }
  return [...new Set(found)]
}

async function create(
  service: Service,
  more: Json = {},
  headers: Record<string, string> = {},
): Promise<Json> {
  const list = await createList(service)
  const answer = await createOn(service, list.id, more, headers)
  return { ...answer, listId: list.id }
}

async function createOn(service: Service, listId: number, more: Json, headers: Record<string, string>) {
  const { body, text } = await service.call(
    'POST',
    `/mailing_lists/${listId}/subscriber_imports`,
    {
      subscriber_import: {
        column_mapping: ['email'],
        file_source: { type: 'url', url: sourceUrl },
        callback_url: callbackUrl,
        ...more,
      },
    },
    { headers },
  )
  if (body.success !== true) throw new Error(text)
  return body.data
}

const stored = async (service: Service, id: number) =>
  (await service.collections.imports.findOne({ _id: id }))!

const untilDropped = (service: Service, id: number) =>
  until(
    `the dropping of the secrets of import ${id}`,
    () => stored(service, id),
    (document) => !document.has_secrets && document.sealed === undefined,
  )

const nextCallback = async (): Promise<Request> => {
  await until(
    'a callback',
    async () => callbacks.length,
    (count) => count > 0,
  )
  return callbacks.shift()!
}

async function keyFile(t: Test, ...keys: string[]): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall keys '))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = path.join(folder, 'keys')
  await writeFile(file, `${keys.join('\n')}\n`)
  return file
}
const newKey = (): string => randomBytes(32).toString('base64')

/** Its tests follow one another: each one leaves it without an engine, and without a secret. */
const service = await startService(t, [])

t.test('processes that start at once on a new folder share one key, and keep it', async (t) => {
  const started = await Promise.all([
    service.start('control-plane'),
    service.start('engine'),
    service.start('engine'),
  ])
  const file = path.join(service.dataFolder, 'secrets.key')
  const key = await readFile(file, 'utf8')
  const { id } = await create(service)
  ;(await nextCallback()).response.writeHead(204).end()
  t.match(await importEnd(service, id), { state: 'finished' })
  await untilDropped(service, id)
  await chmod(file, 0o644)
  const engines = [...started.slice(1), await service.start('engine')]
  t.equal(await readFile(file, 'utf8'), key)
  t.equal((await stat(file)).mode & 0o777, 0o600, 'a copy that lost its mode gets it back')
  await Promise.all(engines.map((engine) => engine.stop()))
})

t.test('the database has secrets encrypted while they are needed, and not at all afterwards', async (t) => {
  const list = await createList(service)
  const key = { 'idempotency-key': 'once' }
  const created = await createOn(service, list.id, {}, key)
  const secrets = { ...planted, callbackSecret: created.callback_secret as string }
  t.match(secrets.callbackSecret, /^whsec_/)
  t.match(created, { file_source: { url: shown.url, filename: 'rows.csv' }, callback_url: shown.callbackUrl })
  const view = await service.get(`/subscriber_imports/${created.id}`)
  t.match(view, { file_source: { url: shown.url }, callback_url: shown.callbackUrl }, 'as before it ends')
  t.match(await service.get(`/mailing_lists/${list.id}/subscriber_imports`), [
    { file_source: { url: shown.url } },
  ])
  t.same(await leaks(service, secrets), [])
  t.same(
    await createOn(service, list.id, {}, key),
    created,
    'the reply to its Idempotency-Key, secret included',
  )

  const engine = await service.start('engine')
  const first = await nextCallback()
  t.same(await leaks(service, secrets), [], 'while the callback is sent')
  t.type((await stored(service, created.id)).sealed, Uint8Array, 'it is needed for the next try')
  t.equal(first.authorization, basic('bob', planted.callbackPassword))
  t.equal(first.url, `/hook?key=${planted.callbackToken}`)
  const { data } = new Webhook(secrets.callbackSecret).verify(first.body, first.headers) as Json
  first.response.writeHead(204).end()
  await untilDropped(service, created.id)
  t.same(await leaks(service, secrets), [])
  const { source, callback } = await stored(service, created.id)
  t.same([source.url, callback], [shownAtEnd.url, { url: shownAtEnd.callbackUrl }])
  const end = await service.get(`/subscriber_imports/${created.id}`)
  t.match(end, {
    state: 'finished',
    file_source: { url: shownAtEnd.url },
    callback_url: shownAtEnd.callbackUrl,
    stats: { number_of_records: 1 },
  })
  t.same(data, end, 'the callback has the view that a request gets')
  t.same(await createOn(service, list.id, {}, key), created, 'also after the end, for its 24 hours')

  const cancelled = await create(service, { begins_at: '2100-01-01T00:00', callback_url: undefined })
  await service.post(`/subscriber_imports/${cancelled.id}/cancel`)
  await untilDropped(service, cancelled.id)
  const failing = await create(service, {
    file_source: { type: 'json', content: 'no address\n' },
    deactivate_subscribers_not_in_import: true,
  })
  ;(await nextCallback()).response.writeHead(204).end()
  await untilDropped(service, failing.id)
  t.equal((await stored(service, failing.id)).state, 'failed')
  t.same(await leaks(service, { ...secrets, other: failing.callback_secret }), [])
  for (const running of Object.values(service.processes))
    for (const secret of Object.values(secrets)) t.notMatch(running.log(), secret)
  const { mode } = await stat(path.join(service.dataFolder, 'secrets.key'))
  t.equal(mode & 0o777, 0o600)
  const keys = await readFile(path.join(service.dataFolder, 'secrets.key'), 'utf8')
  t.same(await leaks(service, { key: keys.trim() }), [], 'nor is the key there')
  await engine.stop()
})

t.test(
  'an import whose key the engine lacks fails with what to do, and the engine keeps working',
  async (t) => {
    const [ours, others] = [newKey(), newKey()]
    const [file, enginesFile] = [await keyFile(t, ours), await keyFile(t, others)]
    const service = await startService(t, ['control-plane'], { SECRETS_KEY_FILE: file })
    const engine = await startHastyEngine(
      t,
      service,
      { callbacks: { retryAfterMs: Array.from({ length: 1_000 }, () => 100) } },
      { SECRETS_KEY_FILE: enginesFile },
    )
    const lost = await create(service)
    t.match(await importEnd(service, lost.id), {
      state: 'failed',
      error_message:
        /^file_source\.url can't be decrypted: it was encrypted with the key [0-9a-f]{16}, which this process does not have: give all processes the same SECRETS_KEY_FILE, .*; after that, create the import again$/,
      file_source: { url: shownAtEnd.url },
    })
    const problem = await until(
      'a failed callback',
      () => service.collections.callbacks.findOne({ _id: lost.id }),
      (callback) => (callback?.failures ?? 0) > 1,
    )
    t.match(problem, { state: 'waiting', problem: /which this process does not have/ })
    await writeFile(enginesFile, `${others}\n${ours}\n`)
    const callback = await nextCallback()
    t.equal(new Webhook(lost.callback_secret).verify(callback.body, callback.headers) !== null, true)
    callback.response.writeHead(204).end()
    await untilDropped(service, lost.id)

    const next = await create(service)
    ;(await nextCallback()).response.writeHead(204).end()
    t.match(await importEnd(service, next.id), { state: 'finished' }, 'the key is found without a restart')
    t.equal(engine.child.exitCode, null)

    const scheduled = await create(service, { begins_at: '2100-01-01T00:00' }, { 'idempotency-key': 'kept' })
    const elsewhere = await service.start('control-plane', { SECRETS_KEY_FILE: await keyFile(t, newKey()) })
    t.match(
      await service.get(`/subscriber_imports/${scheduled.id}`),
      { state: 'scheduled', file_source: { url: shownAtEnd.url }, callback_url: shownAtEnd.callbackUrl },
      'a control plane without the key shows the rest',
    )
    t.match(
      (
        await service.call(
          'POST',
          `/mailing_lists/${scheduled.listId}/subscriber_imports`,
          {
            subscriber_import: {
              column_mapping: ['email'],
              file_source: { type: 'url', url: sourceUrl },
              callback_url: callbackUrl,
              begins_at: '2100-01-01T00:00',
            },
          },
          { headers: { 'idempotency-key': 'kept' } },
        )
      ).body,
      {
        error_code: 'internal_error',
        error_message: new RegExp(
          `^import ${scheduled.id} was created with this Idempotency-Key, .*SECRETS_KEY_FILE`,
        ),
      },
    )
    for (const log of [engine.log(), elsewhere.log()])
      for (const secret of [...Object.values(planted), ours, others]) t.notOk(log.includes(secret))
  },
)

t.test('a new first key seals from then on, and what the old one sealed is still read', async (t) => {
  const [old, recent] = [newKey(), newKey()]
  const file = await keyFile(t, old)
  const service = await startService(t, ['control-plane'], { SECRETS_KEY_FILE: file })
  const before = await create(service)
  await writeFile(file, `${recent}\n\n${old}\n`)
  await service.start('control-plane')
  t.match(await service.get(`/subscriber_imports/${before.id}`), { file_source: { url: shown.url } })
  const after = await create(service)
  const keyIds = await Promise.all(
    [before, after].map(async ({ id }) =>
      Buffer.from((await stored(service, id)).sealed!).toString('hex', 1, 9),
    ),
  )
  t.not(keyIds[0], keyIds[1])
  await service.start('engine')
  // The two callbacks come in either order.
  for (let count = 0; count < 2; count += 1) (await nextCallback()).response.writeHead(204).end()
  for (const { id } of [before, after]) {
    t.match(await importEnd(service, id), { state: 'finished' })
    await untilDropped(service, id)
  }
})

/** Stores URL, callback and its secret in the clear, as a control plane without a key does; `set` are other fields. */
async function storeInTheClear(service: Service, id: number, secret: string, set: Json = {}): Promise<void> {
  await service.collections.imports.updateOne(
    { _id: id },
    {
      $set: { 'source.url': sourceUrl, callback: { url: callbackUrl, secret }, has_secrets: true, ...set },
      $unset: { sealed: '' },
    },
  )
}

/** The fields of an import whose engine died before it dropped the secrets. */
const finalized = { state: 'failed', finished_at: new Date(), totals: noCounts(), finalized: true }

/** Answers the next callback, and says whether its signature is right. */
async function verifyNextCallback(secret: string): Promise<boolean> {
  const { body, headers, response } = await nextCallback()
  const isRight = Boolean(new Webhook(secret).verify(body, headers))
  response.writeHead(204).end()
  return isRight
}

const newCallbackSecret = (): string => `whsec_${newKey()}`

t.test(
  'an import whose secrets are in the clear is shown with masked passwords, runs, and loses its secrets',
  async (t) => {
    const callbackSecret = newCallbackSecret()
    const { id } = await create(service)
    await storeInTheClear(service, id, callbackSecret)
    t.match(
      await service.get(`/subscriber_imports/${id}`),
      { file_source: { url: shown.url }, callback_url: shown.callbackUrl },
      'shown as it was',
    )
    const engine = await service.start('engine')
    t.ok(await verifyNextCallback(callbackSecret))
    t.match(await importEnd(service, id), { state: 'finished' })
    await untilDropped(service, id)
    await engine.stop()
    t.same(await leaks(service, { ...planted, callbackSecret }), [])
  },
)

t.test('an ended import that still has its secrets loses them, once its callback is delivered', async (t) => {
  const { callbacks: waiting } = service.collections
  const callbackSecret = newCallbackSecret()
  const ended = await create(service)
  await storeInTheClear(service, ended.id, callbackSecret, finalized)
  const untold = await create(service)
  await storeInTheClear(service, untold.id, callbackSecret, finalized)
  const inAnHour = new Date(Date.now() + 3_600_000)
  await waiting.insertOne({
    ...{ _id: untold.id, organization_id: 1, queue: `1@${host}`, webhook_id: 'msg_untold', body: '{}' },
    ...{
      state: 'waiting',
      due_at: inAnHour,
      token: null,
      tried_at: null,
      failures: 1,
      problem: 'it slept',
    },
    ended_at: null,
  })

  const engine = await service.start('engine')
  await untilDropped(service, ended.id)
  t.match(await stored(service, untold.id), { callback: { secret: callbackSecret } }, 'it is needed')
  await waiting.updateOne({ _id: untold.id }, { $set: { due_at: new Date() } })
  t.ok(await verifyNextCallback(callbackSecret))
  await untilDropped(service, untold.id)
  await waiting.updateOne(
    { _id: untold.id },
    // Its `due_at` is the end of the lease under which it was delivered, in 30 s.
    { $set: { state: 'waiting', ended_at: null, due_at: new Date() } },
  )
  const again = await until(
    'a failure',
    () => waiting.findOne({ _id: untold.id, failures: 2 }),
    (callback) => callback !== null,
  )
  t.match(
    again,
    { state: 'waiting', problem: /its URL and its secret are gone/ },
    'it cannot be sent once more',
  )
  await engine.stop()
  t.same(await leaks(service, { ...planted, callbackSecret }), [])
  t.match(await service.get(`/subscriber_imports/${ended.id}`), { file_source: { url: shownAtEnd.url } })
})

t.test('a control plane encrypts secrets in the clear when it starts', async (t) => {
  const { imports } = service.collections
  const callbackSecret = newCallbackSecret()
  const secrets = { ...planted, callbackSecret }
  const plain = await create(service, {
    file_source: { type: 'json', content: 'email\n' },
    begins_at: '2100-01-01T00:00',
    callback_url: undefined,
  })
  const waiting = await create(service, { begins_at: '2100-01-01T00:00' })
  await storeInTheClear(service, waiting.id, callbackSecret)
  t.not((await leaks(service, secrets)).length, 0)

  await service.processes['control-plane']?.stop()
  await service.start('control-plane')
  t.same(await leaks(service, secrets), [])
  t.match(await stored(service, waiting.id), { has_secrets: true, source: { url: shownAtEnd.url } })
  t.match(await stored(service, plain.id), { has_secrets: false, sealed: undefined })
  await imports.updateOne({ _id: waiting.id }, { $set: { begins_at: new Date() } })
  const engine = await service.start('engine')
  t.ok(await verifyNextCallback(callbackSecret))
  t.match(await importEnd(service, waiting.id), { state: 'finished' })
  await untilDropped(service, waiting.id)
  await engine.stop()
})

t.test('an engine that dies before it drops secrets leaves them to the next one', async (t) => {
  const engines = new Engines(t, service)
  for (const callback of [undefined, callbackUrl]) {
    const { id } = await create(service, { callback_url: callback })
    const mortal = await engines.start('update imports "$unset":{"sealed" before 1')
    if (callback !== undefined) {
      const told = await nextCallback()
      const isFinalized = (document: Json) => document.finalized === true
      await until('its finalization', () => stored(service, id), isFinalized)
      told.response.writeHead(204).end()
    }
    await engines.untilEnded(mortal)
    t.match(await stored(service, id), { state: 'finished', has_secrets: true, sealed: Uint8Array })
    await engines.endLeaseOf(mortal)
    const next = await engines.start()
    await untilDropped(service, id)
    t.equal(callbacks.length, 0, 'the callback was delivered once')
    await engines.kill([next])
    await engines.endLeaseOf(next)
  }
})

t.test('without a shared folder and a key, imports work in the clear, with a warning', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'], { STAGING: 'gridfs' })
  for (const running of Object.values(service.processes))
    t.match(running.log(), /stored in the clear until their imports end.*set SECRETS_KEY_FILE/)
  const { id, callback_secret: callbackSecret } = await create(service)
  ;(await nextCallback()).response.writeHead(204).end()
  t.match(await importEnd(service, id), { state: 'finished' })
  await untilDropped(service, id)
  t.same(await leaks(service, { ...planted, callbackSecret }), [])
  await t.rejects(stat(path.join(service.dataFolder, 'secrets.key')), { code: 'ENOENT' })
})

t.test('a key file that cannot be used stops the start with its name, not with its content', async (t) => {
  const [good, short] = [newKey(), randomBytes(16).toString('base64')]
  const files: [string | null, RegExp][] = [
    [null, /ENOENT/],
    ['', /it is empty/],
    [`${good}\n${short}\n`, /line 2 is not 32 bytes as base64/],
    [good.slice(0, -1), /line 1 is not 32 bytes as base64/],
  ]
  for (const [content, problem] of files) {
    const file = await keyFile(t)
    if (content === null) await rm(file)
    else await writeFile(file, content)
    for (const name of ['control-plane', 'engine'] as const) {
      const message = await startProcess(name, { ...service.settings, SECRETS_KEY_FILE: file })
        .then(() => 'it started')
        .catch(errorMessage)
      t.match(message, problem)
      t.ok(message.includes(`SECRETS_KEY_FILE ${file} can't be used`))
      for (const key of [good, short]) t.notOk(message.includes(key.slice(0, 20)))
    }
  }
})
