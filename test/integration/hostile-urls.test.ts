import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { deflateRawSync, gzipSync, zstdCompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { createUrlImport, startHastyEngine } from '../helpers/downloads.ts'
import { forbiddenServer } from '../helpers/forbidden-server.ts'
import {
  answer,
  drip,
  flood,
  head,
  redirect,
  startRawWebServer,
  type RawAnswer,
} from '../helpers/raw-web-server.ts'
import { makeZip } from '../helpers/make-zip.ts'
import { minGrowth } from '../helpers/memory-growth.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { importEnd, startService, until, type Json } from '../helpers/service.ts'

/**
 * Servers that stall, lie and redirect, against a real engine that may reach 127.0.0.1 and nothing else that is
 * private. Each import must end in the right state with the right sentence, nothing may knock at 127.0.0.2, and the
 * engine's memory stays as it is.
 */

const forbidden = await forbiddenServer(t)

const rows = 'a@example.com\nb@example.com\n'
/** Half of the real bound, which is as conclusive. */
const maxBytes = 100_000_000
const bomb = gzipSync(Buffer.alloc(maxBytes + 5_000_000, 'a'))
const blankLines = gzipSync(Buffer.alloc(75_000_000, `${' '.repeat(999)}\n`))
const zipped = makeZip([{ name: 'a.csv', content: rows }])
const text = Buffer.alloc(maxBytes + 1, 'a')
const bombs: Record<string, Buffer> = {
  gzip: bomb,
  zstd: zstdCompressSync(text),
  zip: makeZip([{ name: 'a.csv', content: text, packed: deflateRawSync(text) }]),
  'zip-in-gzip': gzipSync(makeZip([{ name: 'a.csv', content: text, packed: deflateRawSync(text) }])),
}
const megabyte = Buffer.alloc(1_000_000, 'a')
const chunk = Buffer.concat([Buffer.from('f4240\r\n'), megabyte, Buffer.from('\r\n')])

const stall: RawAnswer = () => undefined
const written =
  (...pieces: (string | Buffer)[]): RawAnswer =>
  (socket) => {
    for (const piece of pieces) socket.write(piece)
    socket.end()
  }

interface Case {
  path: string
  answer: RawAnswer
  message: RegExp
  /** Requests that reach the server: one where a retry could change nothing. */
  tries: 1 | 3
}

const large: Case[] = [
  ...Object.entries(bombs).map(([name, bytes]) => ({
    path: `/bombs/${name}`,
    answer: answer(200, {}, bytes),
    message: /more than 100 MB/,
    tries: 1 as const,
  })),
  {
    path: '/bomb',
    answer: answer(200, { 'content-encoding': 'gzip', 'content-length': bomb.length }, bomb),
    message: /more than 100 MB/,
    tries: 1,
  },
  {
    path: '/bomb.csv.gz',
    answer: answer(200, { 'content-length': bomb.length }, bomb),
    message: /more than 100 MB/,
    tries: 1,
  },
  {
    path: '/no-end',
    answer: (socket) => {
      socket.write(head(200, { 'transfer-encoding': 'chunked' }))
      flood(socket, chunk)
    },
    message: /more than 100 MB/,
    tries: 1,
  },
]

const noHead = /couldn't be downloaded: .*Timeout/
const silent: Case[] = [
  { path: '/silent', answer: stall, message: noHead, tries: 3 },
  {
    path: '/slow-headers',
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx: ')
      drip(socket, 'x', 200)
    },
    message: noHead,
    tries: 3,
  },
]
const silentBody: Case = {
  path: '/silent-body',
  answer: (socket) => {
    socket.write(head(200, { 'content-length': 1_000 }) + rows)
  },
  message: /broke off after 28 of 1000 bytes: .*Timeout/,
  tries: 3,
}

const hostile: Case[] = [
  {
    path: '/loop',
    answer: redirect('/loop'),
    message: /more than 5 redirects, the last one from http:.*\/loop/,
    tries: 3,
  },
  {
    path: '/nowhere',
    answer: answer(302, { 'content-length': 0 }),
    message: /redirects, but its answer has no Location/,
    tries: 3,
  },
  {
    path: '/no-url',
    answer: redirect('http://'),
    message: /redirects to an invalid URL/,
    tries: 3,
  },
  {
    path: '/file',
    answer: redirect('file:///etc/passwd'),
    message: /redirects to a file: address/,
    tries: 3,
  },
  {
    path: '/gopher',
    answer: redirect('gopher://127.0.0.1/'),
    message: /redirects to a gopher: address/,
    tries: 3,
  },
  {
    path: '/status-404',
    answer: answer(404, {}, 'gone'),
    message: /answered with status 404, expected 200/,
    tries: 3,
  },
  { path: '/status-206', answer: answer(206, {}, rows), message: /answered with status 206/, tries: 3 },
  { path: '/status-304', answer: answer(304, {}), message: /answered with status 304/, tries: 3 },
  {
    path: '/announced',
    answer: (socket) => {
      socket.write(head(200, { 'content-length': maxBytes + 1 }))
    },
    message: /more than 100 MB/,
    tries: 1,
  },
  {
    path: '/short',
    answer: written(head(200, { 'content-length': 1_000 }), rows),
    message: /broke off after 28 of 1000 bytes/,
    tries: 3,
  },
  {
    path: '/short-chunked',
    answer: written(head(200, { 'transfer-encoding': 'chunked' }), '1c\r\n', rows, '\r\n'),
    message: /broke off after 28 bytes/,
    tries: 3,
  },
  {
    path: '/reset',
    answer: (socket) => {
      socket.write(head(200, { 'content-length': 1_000 }) + rows, () => socket.resetAndDestroy())
    },
    message: /broke off after|couldn't be downloaded/,
    tries: 3,
  },
  {
    path: '/two-lengths',
    answer: written('HTTP/1.1 200 OK\r\ncontent-length: 28\r\ncontent-length: 29\r\n\r\n', rows),
    message: /couldn't be downloaded/,
    tries: 3,
  },
  {
    path: '/no-length',
    answer: answer(200, { 'content-length': 'many' }, rows),
    message: /couldn't be downloaded/,
    tries: 3,
  },
  {
    path: '/no-http',
    answer: written('220 smtp.example.com ready\r\n'),
    message: /couldn't be downloaded/,
    tries: 3,
  },
  {
    path: '/headers',
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      flood(socket, 'x-more: and more\r\n'.repeat(500))
    },
    message: /couldn't be downloaded: .*[Hh]eaders/,
    tries: 3,
  },
  {
    path: '/one-header',
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx-long: ')
      flood(socket, 'x'.repeat(60_000))
    },
    message: /couldn't be downloaded: .*[Hh]eaders/,
    tries: 3,
  },
  {
    path: '/informational',
    answer: (socket) => {
      flood(socket, 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(100))
    },
    message: /more than 20 informational answers/,
    tries: 3,
  },
  {
    path: '/encoding',
    answer: answer(200, { 'content-encoding': 'br' }, rows),
    message: /Content-Encoding "br", expected none, gzip or zstd/,
    tries: 1,
  },
  {
    path: '/encodings',
    answer: answer(200, { 'content-encoding': 'gzip, zstd, gzip, x-gzip, zstd' }, rows),
    message: /expected none, gzip or zstd, at most 4 in all/,
    tries: 1,
  },
  {
    path: '/no-gzip',
    answer: answer(200, { 'content-encoding': 'gzip' }, rows),
    message: /no intact gzip data/,
    tries: 3,
  },
  {
    path: '/half-gzip',
    answer: answer(200, { 'content-encoding': 'gzip' }, gzipSync(rows).subarray(0, 30)),
    message: /is cut off: its gzip data has no end/,
    tries: 3,
  },
  {
    path: '/other-encoding',
    answer: answer(200, { 'content-encoding': 'gzip, zstd' }, gzipSync(rows)),
    message: /no intact zstd data/,
    tries: 3,
  },
  {
    path: '/half-container',
    answer: answer(200, {}, gzipSync(rows).subarray(0, 30)),
    message: /"half-container" is cut off: its gzip data has no end/,
    tries: 1,
  },
  {
    path: '/half-zip',
    answer: answer(200, {}, zipped.subarray(0, 90)),
    message: /"half-zip" is cut off: the directory at the end of the zip is missing/,
    tries: 1,
  },
  {
    path: '/broken-zip',
    answer: written(head(200, { 'content-length': zipped.length }), zipped.subarray(0, 90)),
    message: /broke off after 90 of \d+ bytes/,
    tries: 3,
  },
  {
    path: '/to-forbidden',
    answer: redirect(`http://127.0.0.2:${forbidden.port}/`),
    message: /^127\.0\.0\.2 is no public address and is refused/,
    tries: 1,
  },
  {
    path: '/to-metadata',
    answer: redirect('http://169.254.169.254/latest/meta-data/'),
    message: /169\.254\.169\.254 is no public address/,
    tries: 1,
  },
  {
    path: '/to-decimal',
    answer: redirect(`http://2130706434:${forbidden.port}/`),
    message: /127\.0\.0\.2 is no public address/,
    tries: 1,
  },
  {
    path: '/to-octal',
    answer: redirect(`http://0177.0.0.2:${forbidden.port}/`),
    message: /127\.0\.0\.2 is no public address/,
    tries: 1,
  },
  {
    path: '/to-hex',
    answer: redirect(`ftp://0x7f000002:${forbidden.port}/`),
    message: /127\.0\.0\.2 is no public address/,
    tries: 1,
  },
  {
    path: '/to-hex-ftps',
    answer: redirect(`ftps://0x7f000002:${forbidden.port}/`),
    message: /127\.0\.0\.2.* is no public address/,
    tries: 1,
  },
  {
    path: '/to-mapped',
    answer: redirect(`http://[::ffff:127.0.0.2]:${forbidden.port}/`),
    message: /is no public address/,
    tries: 1,
  },
  {
    path: '/to-compatible',
    answer: redirect(`http://[::7f00:2]:${forbidden.port}/`),
    message: /is no public address/,
    tries: 1,
  },
  {
    path: '/to-nat64',
    answer: redirect(`http://[64:ff9b::7f00:2]:${forbidden.port}/`),
    message: /is no public address/,
    tries: 1,
  },
  {
    path: '/to-name',
    answer: redirect(`http://evil.test:${forbidden.port}/`),
    message: /^evil\.test \(127\.0\.0\.2\) is no public address/,
    tries: 1,
  },
  {
    path: '/to-mixed',
    answer: redirect(`http://mixed.test:${forbidden.port}/`),
    message: /^mixed\.test \(127\.0\.0\.2\) is no public address/,
    tries: 1,
  },
  {
    path: '/to-ftp-name',
    answer: redirect(`ftp://evil.test:${forbidden.port}/a.csv`),
    message: /^evil\.test \(127\.0\.0\.2\) is no public address/,
    tries: 1,
  },
]

const service = await startService(t, ['control-plane'])
const startEngine = (silenceMs: number) =>
  startHastyEngine(t, service, {
    bounds: { bytes: maxBytes, retryAfterMs: [50, 100], silenceMs },
    answers: {
      'evil.test': [['127.0.0.2']],
      'mixed.test': [['127.0.0.1', '127.0.0.2']],
    },
  })

let engine = await startEngine(3_000)

const answers: Record<string, RawAnswer> = {
  ...Object.fromEntries(
    [...silent, silentBody, ...hostile, ...large].map(({ path, answer }) => [path, answer]),
  ),
  '/good': answer(200, {}, rows),
  '/large': answer(200, { 'content-encoding': 'gzip' }, blankLines),
}
const web = await startRawWebServer(t, answers)
const base = `http://127.0.0.1:${web.port}`

const end = (id: number): Promise<Json> => importEnd(service, id, 90_000)

async function check(t: Test, { path, message, tries }: Case, id: number): Promise<void> {
  const view = await end(id)
  t.match(view, { state: 'failed', error_message: message }, path)
  const seen = web.requests.get(path)?.length ?? 0
  t.equal(seen, path === '/loop' ? 18 : tries, `${path}: ${tries} tries`)
  if (tries === 3) t.match(view.error_message, /\(the last of 3 tries\)$/)
}

/** All at once. */
async function checkAll(t: Test, cases: Case[]): Promise<void> {
  const created = []
  for (const { path } of cases) created.push((await createUrlImport(service, base + path)).id)
  for (const [i, known] of cases.entries()) await check(t, known, created[i])
}

/** How much the engine's memory grows while the cases are checked, in MB. */
const growthDuring = (t: Test, cases: Case[]): Promise<number> =>
  minGrowth(engine.child.pid, 64, async () => {
    web.requests.clear()
    await checkAll(t, cases)
  })

t.test('silent servers end their imports', async (t) => {
  // The servers are in this process, which may be silent for 3 s on a busy machine.
  const body = repeatWhile(
    async () => {
      web.requests.delete(silentBody.path)
      return end((await createUrlImport(service, base + silentBody.path)).id)
    },
    (view) => noHead.test(view.error_message),
  )
  const [{ id }] = await Promise.all([body, checkAll(t, silent)])
  await check(t, silentBody, id)
  await engine.stop()
  engine = await startEngine(60_000)
})

// Memory for valid files doesn't count, nor garbage of a large one that isn't collected yet.
t.test('valid files are imported, small and large', async (t) => {
  for (const path of ['/good', '/large'])
    t.match(await end((await createUrlImport(service, base + path)).id), { state: 'finished' })
})

t.test('hostile servers end their imports in the right state, with the right sentence', async (t) => {
  const growth = await growthDuring(t, hostile)
  t.ok(growth < 64, `memory grew by ${growth.toFixed(0)} MB`)
})

t.test('endless files and bombs are refused with bounded memory', async (t) => {
  for (const known of large) {
    const growth = await growthDuring(t, [known])
    t.ok(growth < 64, `${known.path}: memory grew by ${growth.toFixed(0)} MB`)
  }
})

t.test('no connection reached the forbidden address, and nothing is left', async (t) => {
  t.same(forbidden.knocks, [])
  const folder = path.join(service.dataFolder, 'staging')
  const left = await until(
    'an empty staging',
    () => readdir(folder),
    (names) => names.length === 0,
  )
  t.same(left, [])
  t.equal(engine.child.exitCode, null)
})
