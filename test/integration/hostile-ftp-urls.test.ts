import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { makeCertificate } from '../helpers/certificate.ts'
import { createUrlImport, startHastyEngine } from '../helpers/downloads.ts'
import { forbiddenServer } from '../helpers/forbidden-server.ts'
import { missing } from '../helpers/missing-programs.ts'
import { answer, redirect, startRawWebServer } from '../helpers/raw-web-server.ts'
import { startFtpServer, type FtpScript } from '../helpers/scripted-ftp-server.ts'
import { countsOf, importEnd, startService, type Json } from '../helpers/service.ts'

/** FTP servers that break off, lie or say nothing. What ends after a part of the file never counts as whole. */

const forbidden = await forbiddenServer(t)

const content = Buffer.from(Array.from({ length: 5_000 }, (_, i) => `s${i}@example.com\n`).join(''))
const half = content.indexOf('\n', content.length / 2) + 1
const noSize = { SIZE: '502 unknown' }

const service = await startService(t, ['control-plane'])
const withoutOpenssl = missing('openssl')
const files =
  withoutOpenssl === false ? await makeCertificate(service.dataFolder, 'files', 'DNS:files.test') : undefined
const startEngine = (silenceMs: number) =>
  startHastyEngine(
    t,
    service,
    {
      bounds: { retryAfterMs: [50], silenceMs, connectMs: 10_000 },
      answers: { 'files.test': [['127.0.0.1']] },
    },
    files && { NODE_EXTRA_CA_CERTS: files.cert },
  )

let engine = await startEngine(4_000)

const end = (id: number): Promise<Json> => importEnd(service, id, 90_000)

interface Case {
  name: string
  script: Partial<FtpScript>
  message: RegExp
}

const silent: Case[] = [
  {
    name: 'half of the file, no SIZE, then silence',
    script: { sends: half, replies: noSize, end: null },
    message: /broke off after \d+ bytes: Timeout/,
  },
  { name: 'silence at RETR', script: { replies: { RETR: null } }, message: /Timeout/ },
  { name: 'silence at the login', script: { replies: { USER: null } }, message: /Timeout/ },
]

const hostile: Case[] = [
  { name: 'half of the file, and "done"', script: { sends: half }, message: /sent \d+ of \d+ bytes/ },
  {
    name: 'half of the file and a reset',
    script: { sends: half, breaksOff: true, end: '426 broken' },
    message: /broke off after|couldn't be downloaded/,
  },
  {
    name: 'half of the file, no SIZE, 426',
    script: { sends: half, replies: noSize, end: '426 aborted' },
    message: /broke off after \d+ bytes: 426 aborted/,
  },
  {
    name: 'half of the file, no SIZE, then gone',
    script: { sends: half, replies: noSize, end: null, closes: true },
    message: /broke off after \d+ bytes/,
  },
  { name: 'more than announced', script: { replies: { SIZE: '213 10' } }, message: /sent \d+ of 10 bytes/ },
  {
    name: 'too large by its own word',
    script: { replies: { SIZE: '213 200000001' } },
    message: /more than 200 MB/,
  },
  { name: 'no such file', script: { replies: { RETR: '550 no such file' } }, message: /550 no such file/ },
  {
    name: 'a password told back',
    script: { replies: { PASS: '530 "s:cret" is no password\u0007' } },
    message: /530 "\*\*\*" is no password/,
  },
  {
    name: 'data at a forbidden address',
    script: {
      replies: {
        EPSV: '502 unknown',
        PASV: `227 ok (127,0,0,2,${forbidden.port >> 8},${forbidden.port & 255})`,
      },
    },
    message: /couldn't be downloaded|broke off/,
  },
]

/** Checks all cases, whose imports run at once. */
async function checkAll(t: Test, cases: Case[]): Promise<void> {
  const created = await Promise.all(
    cases.map(async ({ script }) => {
      const { port } = await startFtpServer(t, { content, ...script })
      return createUrlImport(service, `ftp://ann:s%3Acret@127.0.0.1:${port}/a.csv`)
    }),
  )
  for (const [i, { name, message }] of cases.entries()) {
    const view = await end(created[i].id)
    t.match(view, { state: 'failed', error_message: message, stats: { records_imported: 0 } }, name)
    t.notMatch(JSON.stringify(view), /s%3Acret|s:cret/)
  }
  t.notMatch(engine.log(), /s%3Acret|s:cret/)
}

t.test('silent servers end their imports', async (t) => {
  await checkAll(t, silent)
  await engine.stop()
  // The servers below are in this process too, which may be silent for 4 s on a busy machine.
  engine = await startEngine(60_000)
})

t.test('each ends its import as failed, with the right sentence', (t) => checkAll(t, hostile))

t.test('good ones: without SIZE, and at the end of a redirect', async (t) => {
  const ftp = await startFtpServer(t, { content, replies: noSize })
  const direct = await createUrlImport(service, `ftp://127.0.0.1:${ftp.port}/a.csv`)
  t.same(countsOf(await end(direct.id)), { added: 5_000 })
  const web = await startRawWebServer(t, {
    '/there': redirect(`ftp://eve:sesame@127.0.0.1:${ftp.port}/a.csv`),
    '/never': answer(200, {}, ''),
  })
  ftp.commands.length = 0
  const led = await createUrlImport(service, `http://ann:secret@127.0.0.1:${web.port}/there`)
  t.same(countsOf(await end(led.id)), { added: 5_000 })
  t.ok(ftp.commands.includes('USER anonymous'), 'credentials of neither URL are used')
})

t.test(
  'ftps: from the first byte, or after AUTH TLS where the server answers in the clear',
  { skip: withoutOpenssl },
  async (t) => {
    const context = { cert: await readFile(files!.cert, 'utf8'), key: await readFile(files!.key, 'utf8') }
    for (const mode of ['implicit', 'explicit'] as const) {
      const ftp = await startFtpServer(t, { content, tls: { mode, context } })
      const { id } = await createUrlImport(service, `ftps://files.test:${ftp.port}/a.csv`)
      const view = await end(id)
      t.same(countsOf(view), { added: 5_000 }, `${mode}: ${view.error_message}`)
      t.ok(ftp.commands.includes('PROT P'))
      ftp.commands.length = 0
      const wrong = await createUrlImport(service, `ftps://ann:secret@127.0.0.1:${ftp.port}/a.csv`)
      t.match(await end(wrong.id), { state: 'failed', error_message: /Hostname\/IP does not match/ })
      t.notOk(
        ftp.commands.some((line) => line.startsWith('USER')),
        'no client logs in without a certificate',
      )
    }
    const plain = await startFtpServer(t, { content })
    const { id } = await createUrlImport(service, `ftps://ann:secret@127.0.0.1:${plain.port}/a.csv`)
    t.match(await end(id), { state: 'failed' })
    t.notOk(
      plain.commands.some((line) => line.startsWith('USER')),
      'nor in the clear',
    )
  },
)

t.test('no connection reached the forbidden address', async (t) => {
  t.same(forbidden.knocks, [])
  t.equal(engine.child.exitCode, null)
})
