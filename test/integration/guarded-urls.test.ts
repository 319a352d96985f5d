import { readFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { makeCertificate } from '../helpers/certificate.ts'
import { createUrlImport, emailsOnly, startHastyEngine } from '../helpers/downloads.ts'
import { growthSince, untilEndedImports } from '../helpers/metric-value.ts'
import { missing } from '../helpers/missing-programs.ts'
import { answer, drip, head, redirect, startRawWebServer, type RawAnswer } from '../helpers/raw-web-server.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { createList, importEnd, startService, until, type Json } from '../helpers/service.ts'

/** Names, credentials, certificates and time, against a real engine that may reach 127.0.0.1 and nothing else that is private. */

const rows = 'a@example.com\nb@example.com\n'
const service = await startService(t, ['control-plane'])
const engine = await startHastyEngine(t, service, {
  bounds: { retryAfterMs: [50, 100] },
  answers: {
    'other.test': [['127.0.0.1']],
    'inside.test': [['10.0.0.7']],
    'changes.test': [['127.0.0.1'], ['127.0.0.2']],
    'pinned.test': [['127.0.0.1'], ['127.0.0.2']],
  },
})
const answers: Record<string, RawAnswer> = { '/good': answer(200, {}, rows) }
const web = await startRawWebServer(t, answers)
const base = `http://127.0.0.1:${web.port}`

const end = (id: number): Promise<Json> => importEnd(service, id, 90_000)

// First, so that no import of another test is counted late.
t.test('attempts are counted by result, and failures by scheme and reason', async (t) => {
  const growth = await growthSince(engine.ready!.metrics['engine']!)
  answers['/unavailable'] = answer(503, {})
  answers['/absent'] = answer(404, {})
  const urls = [
    `${base}/good`,
    `${base}/unavailable`,
    `${base}/absent`,
    'http://inside.test/',
    'https://no-such-name.test/',
  ]
  const ended = await Promise.all(
    urls.map(async (url) => (await end((await createUrlImport(service, url)).id)).state),
  )
  t.same(ended, ['finished', 'failed', 'failed', 'failed', 'failed'])
  const failures = (scheme: string, reason: string) =>
    `rollcall_import_download_failures_total{scheme="${scheme}",reason="${reason}"}`
  const expected = {
    'rollcall_import_download_attempts_total{result="ok"}': 1,
    'rollcall_import_download_attempts_total{result="failed"}': 9,
    'rollcall_import_download_attempts_total{result="refused"}': 1,
    [failures('http', 'status_5xx')]: 3,
    [failures('http', 'not_found')]: 3,
    [failures('http', 'address_refused')]: 1,
    [failures('https', 'name')]: 3,
  }
  // An import shows its end a moment before it is finalized and counted.
  await untilEndedImports(growth, 'url', { finished: 1, failed: 4 })
  for (const [series, count] of Object.entries(expected)) t.equal(await growth(series), count, series)
})

t.test('a name that changes its meaning leads nowhere else', async (t) => {
  answers['/to-itself'] = redirect(`http://changes.test:${web.port}/good`)
  const once = await createUrlImport(service, `http://pinned.test:${web.port}/good`)
  t.match(await end(once.id), { state: 'finished' }, 'the address that was checked is the one that is used')
  const twice = await createUrlImport(service, `http://changes.test:${web.port}/to-itself`)
  t.match(await end(twice.id), {
    state: 'failed',
    error_message: /^changes\.test \(127\.0\.0\.2\) is no public address/,
  })
})

t.test('credentials are not sent to another port of the same host', async (t) => {
  const beside = await startRawWebServer(t, { '/beside': answer(200, {}, rows) })
  answers['/moved'] = redirect(`http://127.0.0.1:${beside.port}/beside`)
  const { id } = await createUrlImport(service, `http://ann:secret@127.0.0.1:${web.port}/moved`)
  t.match(await end(id), { state: 'finished' })
  t.match(web.requests.get('/moved')![0], /authorization: Basic /)
  t.notMatch(beside.requests.get('/beside')![0], /authorization/i)
})

t.test(
  'credentials are sent only to the origin for which they were given, and are never shown',
  async (t) => {
    answers['/own'] = redirect('/own-2')
    answers['/own-2'] = redirect(`http://other.test:${web.port}/theirs`)
    answers['/theirs'] = redirect(`${base}/back`)
    answers['/back'] = redirect(`http://eve:sesame@127.0.0.1:${web.port}/lent?token=t0ken`)
    answers['/lent'] = answer(403, {})
    const created = await createUrlImport(service, `http://ann:s%3Acret@127.0.0.1:${web.port}/own`)
    t.equal(created.file_source.url, `http://ann:***@127.0.0.1:${web.port}/own`)
    const view = await end(created.id)
    t.match(view, {
      state: 'failed',
      error_message: /\/lent\?… answered with status 403, expected 200 \(the last/,
    })
    const sent = (path: string) => /authorization: (.*)\r/.exec(web.requests.get(path)![0]!)?.[1] ?? null
    const own = `Basic ${Buffer.from('ann:s:cret').toString('base64')}`
    t.same(['/own', '/own-2', '/theirs', '/back', '/lent?token=t0ken'].map(sent), [
      own,
      own,
      null,
      null,
      null,
    ])
    const shown = JSON.stringify(view) + engine.log()
    for (const secret of ['s%3Acret', 's:cret', 'sesame', 't0ken']) t.notMatch(shown, secret)
  },
)

t.test('a Location is read as the bytes that it has', async (t) => {
  const paths = { utf8: '/%C3%A9.csv', latin1: '/%E9.csv' }
  for (const path of Object.values(paths)) answers[path] = answer(200, {}, rows)
  for (const [encoding, path] of Object.entries(paths) as ['utf8' | 'latin1', string][]) {
    const location = Buffer.from('/é.csv', encoding)
    answers[`/raw-${encoding}`] = (socket) => {
      socket.write('HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: ')
      socket.end(Buffer.concat([location, Buffer.from('\r\n\r\n')]))
    }
    const { id } = await createUrlImport(service, `${base}/raw-${encoding}`)
    t.match(await end(id), { state: 'finished', stats: { number_of_records: 2 } }, encoding)
    t.equal(web.requests.get(path)?.length, 1, encoding)
  }
})

t.test('cookies of redirects are sent back where they belong, within their download', async (t) => {
  const beside = await startRawWebServer(t, { '/end': answer(200, {}, rows) })
  const moved = (location: string, ...cookies: string[]): RawAnswer => {
    const lines = [
      `location: ${location}`,
      'content-length: 0',
      ...cookies.map((one) => `set-cookie: ${one}`),
    ]
    return (socket) => void socket.end(`HTTP/1.1 302 Found\r\n${lines.join('\r\n')}\r\n\r\n`)
  }
  const cookieOf = (requests: Map<string, string[]>, path: string) =>
    requests.get(path)?.map((head) => /\r\ncookie: (.*)\r/i.exec(head)?.[1] ?? null)
  answers['/share'] = (socket, request) =>
    (/sid=1/.test(request.head) ? answer(200, {}, rows) : moved('/share', 'sid=1; Path=/; HttpOnly'))(
      socket,
      request,
    )
  for (const _download of [1, 2]) {
    const { id } = await createUrlImport(service, `${base}/share`)
    t.match(await end(id), { state: 'finished', stats: { number_of_records: 2 } })
  }
  t.same(cookieOf(web.requests, '/share'), [null, 'sid=1', null, 'sid=1'], 'each download begins without')

  answers['/set'] = moved(
    '/in/changed',
    'a=1; Path=/in',
    'b=2; Path=/in; Secure',
    'c=3; Path=/elsewhere',
    'd=4; Path=/; Domain=127.0.0.2',
    'gone=5; Path=/; Max-Age=0',
    'e=6; Path=/',
    'no cookie',
  )
  answers['/in/changed'] = moved(`http://other.test:${web.port}/in/other`, 'e=7; Path=/')
  answers['/in/other'] = moved(`http://127.0.0.1:${beside.port}/end`, 'e=8; Path=/', 'f=9; Domain=test')
  const { id } = await createUrlImport(service, `${base}/set`)
  t.match(await end(id), { state: 'finished', stats: { number_of_records: 2 } })
  t.same(cookieOf(web.requests, '/in/changed'), ['a=1; e=6'])
  t.same(cookieOf(web.requests, '/in/other'), [null], 'none of another host')
  t.same(cookieOf(beside.requests, '/end'), ['e=7'], 'cookies know no ports (RFC 6265, section 8.5)')
})

t.test('words in Content-Encoding that are no compression are ignored', async (t) => {
  const words = [
    ...['identity', 'none', 'binary', 'utf-8', 'UTF8', 'iso-8859-1', 'aws-chunked', 'text/csv', '8bit'],
  ]
  const importWith = async (word: string, body: string | Buffer) => {
    const path = `/word-${encodeURIComponent(word)}`
    answers[path] = answer(200, { 'content-encoding': word }, body)
    return end((await createUrlImport(service, `${base}${path}`)).id)
  }
  const imported = { state: 'finished', stats: { number_of_records: 2 } }
  const refused = { state: 'failed', error_message: /came with Content-Encoding/ }
  await Promise.all([
    ...[...words, 'aws-chunked, utf-8'].map(async (word) =>
      t.match(await importWith(word, rows), imported, word),
    ),
    t.resolveMatch(importWith('aws-chunked,gzip', gzipSync(rows)), imported),
    ...['br', 'deflate', 'compress', 'utf-8, br', 'unknown-coding'].map(async (word) =>
      t.match(await importWith(word, rows), refused, word),
    ),
  ])
})

t.test('a certificate of an unknown authority is refused', { skip: missing('openssl') }, async (t) => {
  const files = await makeCertificate(service.dataFolder, 'unvouched', 'DNS:other.test')
  const pair = { cert: await readFile(files.cert, 'utf8'), key: await readFile(files.key, 'utf8') }
  const secure = await startRawWebServer(t, { '/a.csv': answer(200, {}, rows) }, { tls: pair })
  const { id } = await createUrlImport(service, `https://other.test:${secure.port}/a.csv`)
  t.match(await end(id), {
    state: 'failed',
    error_message: /couldn't be downloaded: self-signed certificate/,
  })
  t.equal(secure.requests.size, 0)
})

t.test('a byte now and then ends with the time for all tries', async (t) => {
  answers['/drip'] = (socket) => {
    socket.write(head(200, { 'content-length': 1_000_000 }))
    drip(socket, 'a', 100)
  }
  const shown = await repeatWhile(
    async () => {
      web.requests.delete('/drip')
      const { id } = await createUrlImport(service, `${base}/drip`, { begins_at: '2100-01-01T00:00:00Z' })
      const soon = new Date(Date.now() + 5_000)
      await service.collections.imports.updateOne(
        { _id: id },
        { $set: { begins_at: new Date(), 'download.ends_at': soon } },
      )
      return until(
        'progress',
        () => service.get(`/subscriber_imports/${id}`),
        (view: Json) => view.download?.bytes_received > 0 || view.state === 'failed',
      )
    },
    ({ state }) => state === 'failed',
  )
  t.match(shown, { download: { attempt: 1, next_attempt_at: null, bytes_expected: 1_000_000 } })
  t.match(await end(shown.id), {
    state: 'failed',
    error_message: /\/drip had not sent the whole file after 15 minutes$/,
  })
  t.equal(web.requests.get('/drip')!.length, 1)
})

t.test('addresses that a URL spells out are refused at its creation', async (t) => {
  const list = await createList(service)
  const hosts = [
    '127.0.0.2',
    '2130706434',
    '0x7f.2',
    '0177.0.0.2',
    '10.1.2.3',
    '169.254.169.254',
    '168.63.129.16',
  ]
  const hosts6 = [
    '[::1]',
    '[::7f00:1]',
    '[::ffff:10.0.0.1]',
    '[64:ff9b::a00:1]',
    '[64:ff9b:1::1]',
    '[2002:7f00:1::]',
    '[fe80::1]',
  ]
  for (const host of [...hosts, ...hosts6, '%31%30.0.0.1'])
    for (const scheme of ['http', 'https', 'ftp', 'ftps']) {
      const url = `${scheme}://${host}/a.csv`
      const { body } = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: { ...emailsOnly, file_source: { type: 'url', url } },
      })
      t.match(body, { error_code: 'validation_failed', error_message: /is no public address/ }, url)
    }
})
