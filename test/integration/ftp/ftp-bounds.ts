import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { PassivePorts } from '../../../ftp/connection/passive-ports.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { AuthThrottle } from '../../../shared/store/api-keys.ts'
import { makeCertificate } from '../../helpers/certificate.ts'
import { ftpFronts } from '../../helpers/ftp-front.ts'
import { FtpSession } from '../../helpers/ftp-session.ts'
import { bootstrapKey, until } from '../../helpers/service.ts'
import { service } from './service.ts'

// How much a client may have waiting or in progress, and that its end is noticed nevertheless.
const pems = path.join(service.dataFolder, 'pem files')
await mkdir(pems, { recursive: true })
const offered = {
  ...(await makeCertificate(pems, 'bounds')),
  implicitPort: 0,
  isRequired: false,
  mustResume: true,
}
const { collections, openWith, start } = await ftpFronts(t, service)
const front = await start(t)
const never = AbortSignal.any([])

const noMoreSessions = (name: string, one = front) =>
  until(
    name,
    () => one.registry.metrics(),
    (text) => /^rollcall_ftp_sessions 0$/m.test(text),
  )

t.test('a client that dies behind many waiting commands has not uploaded its file', async (t) => {
  const session = await FtpSession.open(front.url)
  const data = await session.beginUpload('STOR half.csv')
  data.write('half')
  session.write('NOOP\r\n'.repeat(3_000))
  for (let index = 0; index < 200; index += 1) session.write(`SIZE ${index}.csv\r\nNOOP\r\n`)
  data.end()
  session.close()
  await noMoreSessions('the end of the session')
  const other = await FtpSession.open(front.url)
  t.match(await other.command('MLST half.csv'), /^550 /)
  other.close()
})

t.test('ABOR is noticed behind keep-alives, which are answered in order', async (t) => {
  const session = await FtpSession.open(front.url)
  await session.beginUpload('STOR aborted.csv')
  session.write('NOOP\r\n'.repeat(2_000))
  t.match(await session.command('ABOR'), /^426 /)
  for (let replies = 0; replies < 2_000; replies += 1)
    if (!(await session.reply()).startsWith('200 ')) t.fail('a reply is out of order')
  t.match(await session.reply(), /^226 /)
  session.close()
})

t.test('too many waiting commands end the session and its transfer', async (t) => {
  for (const commands of [
    'NOOP\r\nSYST\r\n'.repeat(600),
    'NOOP\r\n'.repeat(100_001),
    Array.from({ length: 200 }, (_, index) => `SIZE ${index}${'x'.repeat(400)}\r\n`).join(''),
  ]) {
    const session = await FtpSession.open(front.url)
    const data = await session.beginUpload('STOR flooded.csv')
    session.write(commands)
    t.match(await session.ended(), /^421 too many commands are waiting/m)
    data.destroy()
    await noMoreSessions('the end of the flood')
  }
})

t.test('a client that sends commands without reading replies is disconnected', async (t) => {
  const session = await FtpSession.open(front.url)
  await session.beginUpload('STOR unread.csv')
  session.control.pause()
  const asking = setInterval(() => {
    if (session.control.writableLength < 1_000_000) session.write('STAT\r\n'.repeat(20_000))
  }, 20)
  await noMoreSessions('the end of the session')
  clearInterval(asking)
  session.close()
  t.pass('it is at its end')
})

/** Consecutive free ports on which no server listens, for each server. */
async function listenInARow(size: number) {
  for (let tries = 0; tries < 100; tries += 1) {
    const first = 10_000 + Math.floor(Math.random() * 20_000)
    const servers = Array.from({ length: size }, () => createServer())
    const tried = await Promise.allSettled(
      servers.map((server, index) => once(server.listen(first + index, '127.0.0.1'), 'listening')),
    )
    if (tried.every(({ status }) => status === 'fulfilled')) return { first, servers }
    await Promise.all(servers.map(closed))
  }
  throw new Error('no free ports')
}
const closed = (server: ReturnType<typeof createServer>) => new Promise((resolve) => server.close(resolve))

t.test('passive ports are in no order', async (t) => {
  const { first, servers } = await listenInARow(60)
  await Promise.all(servers.map(closed))
  const ports = new PassivePorts({ host: '127.0.0.1', first, last: first + 59, timeoutMs: 30_000 })
  const leases = []
  for (let count = 0; count < 20; count += 1) leases.push(await ports.acquire(1, never))
  const taken = leases.map(({ port }) => port)
  t.equal(new Set(taken).size, 20)
  t.notSame(
    taken,
    taken.toSorted((one, other) => one - other),
  )
  for (const lease of leases) lease.release()
})

t.test('a search that found no port wakes no waiting search, and a freed port does', async (t) => {
  const { first, servers } = await listenInARow(3)
  await Promise.all(servers.slice(1).map(closed))
  t.teardown(() => closed(servers[0]!))
  const ports = new PassivePorts({ host: '127.0.0.1', first, last: first + 2, timeoutMs: 30_000 })
  const taken = [await ports.acquire(1, never), await ports.acquire(2, never)]
  t.teardown(() => taken.forEach((lease) => lease.release()))
  let tries = 0
  const count = () => {
    tries += 1
  }
  const channel = 'tracing:net.server.listen:error'
  subscribe(channel, count)
  const waiting = [3, 4, 5].map(async (account) => (await ports.acquire(account, never)).release())
  await until(
    'the first searches',
    async () => tries,
    (number) => number >= 1,
  )
  // A search that wakes the others is repeated as often as this one.
  for (let own = 0; own < 100; own += 1)
    await once(createServer().listen(first, '127.0.0.1'), 'listening').catch(() => undefined)
  t.ok(tries < 100 + 20, `${tries - 100} tries`)
  taken[0]!.release()
  await Promise.all(waiting)
  unsubscribe(channel, count)
})

t.test('connections over the limit have a short time for their handshake, and few slots', async (t) => {
  const narrow = await start(t, {
    tls: offered,
    sessions: { inProcess: 100, perAddress: 1, perAccount: 100 },
    timeouts: { loginMs: 600_000 },
  })
  const first = await FtpSession.connect(narrow.implicitUrl)
  const sockets = Array.from({ length: 30 }, () => connect(narrow.implicitTlsPort!, '127.0.0.1'))
  await Promise.all(
    sockets.map(async (socket) => {
      socket.on('error', () => undefined).resume()
      await new Promise((resolve) => socket.once('close', resolve))
    }),
  )
  t.match(await first.command('NOOP'), /^200 /)
  first.close()
})

t.test(
  'logins sent together are throttled as those one after the other are',
  { skip: process.platform === 'linux' ? false : 'only Linux has all of 127.0.0.0/8' },
  async (t) => {
    const careful = await start(t, {
      throttle: new AuthThrottle(collections, 5, createLogger({ process: 'ftp', level: 'fatal' })),
    })
    const sessions = await Promise.all(
      Array.from({ length: 40 }, () => FtpSession.connect(careful.url, '127.0.0.77')),
    )
    const answers = await Promise.all(
      sessions.map((session, index) => session.login(index === 39 ? bootstrapKey : 'wrong_key_0123456789')),
    )
    t.equal(answers.filter((answer) => answer.startsWith('530 wrong user or API key')).length, 5)
    t.equal(answers.filter((answer) => answer.startsWith('530 too many wrong')).length, 34)
    t.match(answers[39], /^230 /, 'a right key passes')
    for (const session of sessions) session.close()
  },
)

t.test('a stop does not wait for a database that is silent', async (t) => {
  let isSilent = false
  const updateOne: typeof collections.uploads.updateOne = (...args) =>
    isSilent ? new Promise(() => undefined) : collections.uploads.updateOne(...args)
  const uploads = Object.create(collections.uploads, { updateOne: { value: updateOne } }) as never
  const silent = await start(t, { uploads: openWith({ ...collections, uploads }), timeouts: { stopMs: 100 } })
  const session = await FtpSession.open(silent.url)
  const data = await session.beginUpload('STOR silent.csv')
  data.write('some')
  isSilent = true
  await silent.stop()
  t.match(await session.ended(), /421 the server is stopping/)
})

t.test('one client dials a passive port, and once', async (t) => {
  const session = await FtpSession.open(front.url)
  const answer = await session.command('EPSV')
  const port = Number(/\|(\d+)\|/.exec(answer)![1])
  const data = connect(port, '127.0.0.1')
  await once(data, 'connect')
  const second = connect(port, '127.0.0.1')
  second.on('error', () => undefined).resume()
  await new Promise((resolve) => second.once('close', resolve))
  t.match(await session.command('STOR once.csv'), /^150 /)
  data.end('mine')
  t.match(await session.reply(), /^226 /)
  session.close()
})

t.test('a directory over its limits may be read and may only shrink', async (t) => {
  const { id } = await service.post('/organizations', { organization: { name: 'Over its limits' } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'ftp' } })
  const before = await FtpSession.open(front.url, key)
  for (const name of ['a.csv', 'b.csv', 'c.csv']) await before.upload(`STOR ${name}`, '12345')
  const unfinished = await before.beginUpload('STOR c.csv')
  unfinished.write('12')
  await until(
    'the two bytes',
    () => before.command('STAT'),
    (reply) => reply.includes(' 2 bytes'),
  )
  before.close()
  unfinished.destroy()
  await noMoreSessions('the end of the upload')
  const renaming = await FtpSession.open((await start(t, { uploadLimits: { files: 4, bytes: 12 } })).url, key)
  await renaming.command('RNFR c.csv')
  t.match(await renaming.command('RNTO cc.csv'), /^250 /, 'a further name and no further byte')
  for (const name of ['c.csv', 'cc.csv'])
    t.match(await renaming.command(`DELE ${name}`), /^250 /, `what is left of ${name}`)
  t.match(await renaming.upload('STOR c.csv', '1'), /^226 /, 'below the limit')
  renaming.close()
  const lowered = await start(t, { uploadLimits: { files: 2, bytes: 9 } })
  const session = await FtpSession.open(lowered.url, key)
  t.equal((await session.download('RETR a.csv')).text, '12345')
  for (const line of ['STOR d.csv', 'STOR a.csv', 'APPE a.csv'])
    await t.rejects(session.upload(line, '1'), /^552 /, line)
  await session.command('RNFR a.csv')
  t.match(await session.command('RNTO aa.csv'), /^250 /, 'a new name')
  t.match(await session.command('DELE aa.csv'), /^250 /)
  await t.rejects(session.upload('STOR d.csv', '1'), /^552 /, 'as many files as may be')
  t.match(await session.command('DELE c.csv'), /^250 /)
  t.match(await session.upload('STOR d.csv', '12345'), /^552 /, 'in the middle of an upload')
  t.match(await session.command('SIZE d.csv'), /^550 /, 'of which nothing stays')
  t.match(await session.upload('STOR d.csv', '1234'), /^226 /, 'the last bytes')
  session.close()
})
