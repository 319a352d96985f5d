import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import path from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { Client } from 'basic-ftp'
import t from 'tap'
import { columns, customFields, SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { bootstrapKey, createList, importEnd, startService, until, type Json } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

const service = await startService(t, ['control-plane', 'engine', 'ftp'])
const { get, post, call } = service
const file = new SubscriberFile({ rows: 1_000, seed: 3 })
const text = [...file.text()].join('')
const expected = file.expectedCounts()

async function importThrough(file_source: Json): Promise<Json> {
  const list = await createList(service, [...customFields])
  const created = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { column_mapping: columns, file_source },
  })
  t.equal(created.state, 'scheduled', 'the reply to a creation is always scheduled')
  return importEnd(service, created.id)
}

function checkEnd(view: Json): void {
  t.match(view, {
    state: 'finished',
    error_message: null,
    stats: { number_of_records: 1_000, records_imported: 1_000, subscribers: expected },
  })
}

async function ftpClient(): Promise<Client> {
  const url = new URL(service.processes.ftp!.ready.ftp!)
  const client = new Client(10_000)
  await client.access({ host: url.hostname, port: Number(url.port), user: 'api', password: bootstrapKey })
  return client
}

/** A server of one file, told by each test how to behave. */
let behave: (path: string) => { status?: number; headers?: Record<string, string>; body?: Buffer | string }
let attempts = 0
const triesOfFlaky: number[] = []
const web = createServer((request, response) => {
  if (request.url === '/flaky.csv') {
    triesOfFlaky.push(performance.now())
    if (triesOfFlaky.length === 1) response.writeHead(503).end()
    else response.end(text)
    return
  }
  attempts += 1
  const { status = 200, headers = {}, body = '' } = behave(request.url!)
  response.writeHead(status, headers).end(body)
})
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
t.teardown(() => web.close())
const webUrl = `http://127.0.0.1:${(web.address() as { port: number }).port}`

// These waits run beside the other tests.
const flaky = importThrough({ type: 'url', url: `${webUrl}/flaky.csv` })

t.test('inline content is imported', async () => {
  checkEnd(await importThrough({ type: 'json', content: text }))
})

t.test('a file uploaded by FTP is imported', async () => {
  const client = await ftpClient()
  await client.uploadFrom(Readable.from([Buffer.from(text)]), 'subscribers.csv')
  client.close()
  checkEnd(await importThrough({ type: 'upload_directory', filename: 'subscribers.csv' }))
})

t.test('a file of a URL is imported, also a compressed one', async () => {
  behave = () => ({ body: text })
  const view = await importThrough({ type: 'url', url: `${webUrl}/files/subscribers.csv?x=1` })
  checkEnd(view)
  t.match(view.file_source, { type: 'url', filename: 'subscribers.csv' })
  behave = () => ({ headers: { 'content-encoding': 'gzip' }, body: gzipSync(text) })
  checkEnd(await importThrough({ type: 'url', url: `${webUrl}/encoded.csv` }))
  behave = () => ({
    headers: { 'content-encoding': 'gzip, zstd', 'content-type': 'text/html' },
    body: zstdCompressSync(gzipSync(gzipSync(text))),
  })
  checkEnd(await importThrough({ type: 'url', url: `${webUrl}/packed.csv.gz` }))
})

t.test('redirects are followed, and each hop is checked anew', async (t) => {
  behave = (target) => (target === '/a' ? { status: 302, headers: { location: '/b' } } : { body: text })
  checkEnd(await importThrough({ type: 'url', url: `${webUrl}/a` }))
  behave = () => ({ status: 302, headers: { location: 'http://169.254.169.254/latest/meta-data' } })
  attempts = 0
  const refused = await importThrough({ type: 'url', url: `${webUrl}/a` })
  t.match(refused, { state: 'failed', error_message: /169\.254\.169\.254 is no public address/ })
  t.equal(attempts, 1, 'a refused address is not tried again')
})

t.test('a file of an FTP server; one that is not there fails the import and nothing else', async (t) => {
  const client = await ftpClient()
  await client.uploadFrom(Readable.from([Buffer.from(text)]), 'over.csv')
  client.close()
  const ftpUrl = service.processes.ftp!.ready.ftp!.replace('//', `//api:${bootstrapKey}@`)
  checkEnd(await importThrough({ type: 'url', url: `${ftpUrl}/over.csv` }))
  const typed = await importThrough({ type: 'url', url: `${ftpUrl}/over.csv;type=i` })
  t.equal(typed.file_source.filename, 'over.csv', 'the type of the transfer is no part of the name')
  checkEnd(typed)
  const { pid } = service.processes.engine!.child
  const list = await createList(service)
  const { id } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'url', url: `${ftpUrl}/absent.csv` },
    },
  })
  const retried = await until(
    'a first try',
    () => service.collections.imports.findOne({ _id: id }),
    (document) => document!.download.attempts > 0,
  )
  t.equal(retried!.state, 'downloading')
  t.ok(service.processes.engine!.child.exitCode === null && service.processes.engine!.child.pid === pid)
  await post(`/subscriber_imports/${id}/cancel`)
})

t.test('a failed try is followed by another after 10 s', { timeout: 300_000 }, async (t) => {
  checkEnd(await flaky)
  t.equal(triesOfFlaky.length, 2)
  const seconds = (triesOfFlaky[1]! - triesOfFlaky[0]!) / 1000
  t.ok(seconds >= 10 && seconds < 25, `after ${seconds.toFixed(1)} s`)
})

t.test('a file that is gone when the import begins fails it, and says so', async (t) => {
  const list = await createList(service, [...customFields])
  await storedUploads(service).put('fleeting.csv', text)
  await post('/mailing_lists', { mailing_list: { name: 'x' } })
  await service.processes.engine!.stop()
  const created = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: columns,
      file_source: { type: 'upload_directory', filename: 'fleeting.csv' },
    },
  })
  const client = await ftpClient()
  await client.remove('fleeting.csv')
  client.close()
  await service.start('engine')
  t.match(await importEnd(service, created.id), {
    state: 'failed',
    error_message: /there is no file "fleeting\.csv" in the upload directory/,
    finished_at: String,
  })
})

t.test('an upload is seen under its name only when it is complete', async (t) => {
  const client = await ftpClient()
  let send: (piece: Buffer | null) => void = () => undefined
  const slow = new Readable({ read() {} })
  send = (piece) => slow.push(piece)
  const upload = client.uploadFrom(slow, 'slow.csv')
  send(Buffer.from(text.slice(0, 50_000)))
  const other = await ftpClient()
  await until(
    'the first bytes',
    () => storedUploads(service).entries(),
    (names) => names.some((name) => name.includes('slow.csv')),
  )
  t.same(
    (await other.list()).map((entry) => entry.name).filter((name) => name.includes('slow')),
    [],
  )
  const early = await call('POST', `/mailing_lists/${(await createList(service)).id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'upload_directory', filename: 'slow.csv' },
    },
  })
  t.match(early.body, { error_code: 'validation_failed', error_message: /not in the upload directory/ })
  await t.rejects(
    other.uploadFrom(Readable.from(['x']), 'slow.csv'),
    { code: 450 },
    'a second upload of the name',
  )
  send(Buffer.from(text.slice(50_000)))
  send(null)
  await upload
  t.equal(await storedUploads(service).content('slow.csv'), text)
  t.same(
    (await storedUploads(service).entries()).filter((name) => name.startsWith('.')),
    [],
    'nothing unfinished is left',
  )
  client.close()
  other.close()
})

t.test('nothing staged is left when imports have ended', async (t) => {
  await until(
    'clearing up after each',
    () => service.collections.imports.countDocuments({ $or: [{ finalized: false }, { holds_list: true }] }),
    (count) => count === 0,
  )
  await until(
    'an empty staging folder',
    () => readdir(path.join(service.dataFolder, 'staging')),
    (names) => names.length === 0,
  )
  t.equal(await service.collections.chunks.countDocuments(), 0)
})

t.test('a wrong login, and what a login may not do', async (t) => {
  const url = new URL(service.processes.ftp!.ready.ftp!)
  const client = new Client(5_000)
  await t.rejects(
    client.access({
      host: url.hostname,
      port: Number(url.port),
      user: 'api',
      password: 'wrong_key_0123456789',
    }),
    { code: 530 },
  )
  await t.rejects(
    client.access({ host: url.hostname, port: Number(url.port), user: 'root', password: bootstrapKey }),
    { code: 530 },
  )
  const session = await ftpClient()
  for (const name of ['../1/x.csv', '/etc/x', 'a/b.csv', '..'])
    await t.rejects(session.uploadFrom(Readable.from(['x']), name), { message: /^55\d/ }, name)
  await t.rejects(session.send('MKD folder'), { code: 550 })
  session.close()
  client.close()
  t.ok((await get('/mailing_lists')).length > 0)
})
