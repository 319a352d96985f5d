import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { makeCertificate } from '../../helpers/certificate.ts'
import { ftpFronts } from '../../helpers/ftp-front.ts'
import { FtpSession } from '../../helpers/ftp-session.ts'
import { repeatWhile } from '../../helpers/repeat-while.ts'
import { bootstrapKey, until } from '../../helpers/service.ts'
import { service } from './service.ts'

// Connections: ports, limits, time-outs, ends. The server runs in this process, with time-outs that no setting has.
const pems = path.join(service.dataFolder, 'pem files')
await mkdir(pems, { recursive: true })
const offered = {
  ...(await makeCertificate(pems, 'front')),
  implicitPort: 0,
  isRequired: false,
  mustResume: true,
}

const { collections, start } = await ftpFronts(t, service)

/** Whether a file is there under its final name. */
const isPublished = async (name: string) => {
  const session = await FtpSession.open(plain.url)
  const { text } = await session.download('NLST')
  session.close()
  return text.split('\r\n').includes(name)
}

const plain = await start(t)

/** A new organization, with a key. */
async function newAccount(): Promise<string> {
  const { id } = await service.post('/organizations', { organization: { name: 'Another one' } })
  return (await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'ftp' } })).key
}

/** Waits until the session's upload has received this number of bytes. */
const arrived = (session: FtpSession, bytes: number) =>
  until(
    `${bytes} bytes`,
    () => session.command('STAT'),
    (reply) => reply.startsWith(`211 transfer in progress, ${bytes} bytes`),
  )

/** Consecutive ports on which no server listens now. */
async function freeRange(size: number): Promise<string> {
  for (let tries = 0; tries < 100; tries += 1) {
    const first = 10_000 + Math.floor(Math.random() * 20_000)
    const servers = Array.from({ length: size }, () => createServer())
    const tried = await Promise.allSettled(
      servers.map((server, index) => once(server.listen(first + index, '127.0.0.1'), 'listening')),
    )
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
    if (tried.every(({ status }) => status === 'fulfilled')) return `${first}-${first + size - 1}`
  }
  throw new Error('no free ports')
}

t.test('an account has at most half of the passive ports, and they are freed', async (t) => {
  const front = await start(t, {
    passivePorts: await freeRange(4),
    timeouts: { passivePortMs: 200 },
  })
  const sessions = await Promise.all([1, 2, 3].map(() => FtpSession.open(front.url)))
  const [first, second, third] = sessions as [FtpSession, FtpSession, FtpSession]
  t.match(await first.command('PASV'), /^227 /)
  t.match(await second.command('EPSV'), /^229 /)
  t.match(await third.command('PASV'), /^425 this account /)
  const stranger = await FtpSession.open(front.url, await newAccount())
  t.match(await stranger.command('PASV'), /^227 /, 'others have theirs')
  t.match(await first.command('EPSV'), /^229 /, 'who asks anew gives the one before back')
  const waiting = third.command('EPSV')
  first.close()
  t.match(await waiting, /^(229|425) /)
  await until(
    'the port of the session that has ended',
    () => third.command('EPSV'),
    (reply) => reply.startsWith('229'),
  )
  t.match(await third.upload('STOR port.csv', 'x'), /^226 /)
  for (const session of [...sessions, stranger]) session.close()
})

t.test('a port is free again as soon as the client has come', async (t) => {
  const front = await start(t, { passivePorts: await freeRange(1) })
  const sessions = await Promise.all([1, 2, 3, 4].map(() => FtpSession.open(front.url)))
  const transfers: [FtpSession, Socket][] = []
  for (const [index, session] of sessions.entries())
    transfers.push([session, await session.beginUpload(`STOR at-once-${index}.csv`)])
  for (const [session, data] of transfers) {
    data.end('x')
    t.match(await session.reply(), /^226 /)
    session.close()
  }
})

t.test('a port that the client does not dial is given back', async (t) => {
  const front = await start(t, { passivePorts: await freeRange(1), timeouts: { dataConnectionMs: 100 } })
  const [idler, worker] = [await FtpSession.open(front.url), await FtpSession.open(front.url)]
  t.match(await idler.command('PASV'), /^227 /)
  t.match(await worker.command('PASV'), /^227 /, 'after a wait')
  idler.write('STOR nobody.csv\r\n')
  t.match(await idler.reply(), /^425 /)
  idler.close()
  worker.close()
})

t.test(
  'a stranger who connects to a passive port is disconnected, and the client still gets through',
  { skip: process.platform === 'linux' ? false : 'only Linux has more than one loopback address' },
  async (t) => {
    const session = await FtpSession.open(plain.url)
    const port = Number(/\|(\d+)\|/.exec(await session.command('EPSV'))![1])
    const stranger = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' })
    stranger.on('error', () => undefined).resume()
    await once(stranger, 'close')
    const data = connect(port, '127.0.0.1')
    t.match(await session.command('STOR rightful.csv'), /^150 /)
    data.end('mine')
    t.match(await session.reply(), /^226 /)
    t.equal((await session.download('RETR rightful.csv')).text, 'mine')
    session.close()
  },
)

/** Accepts the server's data connection, as a client in active mode does. */
async function listenForServer(host = '127.0.0.1') {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { port, accepted: once(server, 'connection') as Promise<[Socket]>, close: () => server.close() }
}

t.test('the server connects to the client in active mode', async (t) => {
  const session = await FtpSession.open(plain.url)
  for (const command of ['PORT', 'EPRT']) {
    const { port, accepted, close } = await listenForServer()
    const address = command === 'PORT' ? `127,0,0,1,${port >> 8},${port & 255}` : `|1|127.0.0.1|${port}|`
    t.match(await session.command(`${command} ${address}`), /^200 /)
    session.write('STOR active.csv\r\n')
    const [socket] = await accepted
    t.match(await session.reply(), /^150 /)
    socket.end(command)
    t.match(await session.reply(), /^226 /)
    close()
    t.equal((await session.download('RETR active.csv')).text, command)
  }
  const { port, close } = await listenForServer()
  close()
  await session.command(`EPRT |1|127.0.0.1|${port}|`)
  t.match(await session.command('STOR refused.csv'), /^425 /)
  session.close()
})

/** Sends the lines one after the other; each must get such a reply. */
async function checkReplies(t: Test, session: FtpSession, expected: RegExp, lines: string[]): Promise<void> {
  const replies: [line: string, reply: string][] = []
  for (const line of lines) replies.push([line, await session.command(line)])
  t.match(
    replies,
    lines.map((line) => [line, expected]),
  )
}

t.test('no client makes the server connect to another host', async (t) => {
  const session = await FtpSession.open(plain.url)
  await checkReplies(t, session, /^504 /, [
    'PORT 127,0,0,2,40,0',
    'PORT 10,0,0,1,40,0',
    'PORT 127,0,0,1,0,22',
    'PORT 127,0,0,1,3,255',
    'EPRT |1|127.0.0.2|10240|',
    'EPRT |1|127.0.0.1|22|',
    'EPRT |1|127.0.0.1|65536|',
    'EPRT |2|::1|10240|',
    'EPRT |2|::ffff:127.0.0.1|10240|',
  ])
  await checkReplies(t, session, /^501 /, [
    'PORT',
    'PORT 1,2,3',
    'PORT 127,0,0,1,40,256',
    'PORT 127,0,0,1,40,0,0',
    'PORT 127,0,0,1,-1,0',
    'EPRT',
    'EPRT |1|127.0.0.1|',
    'EPRT |1|example.com|10240|',
    'EPRT |1|::1|10240|',
    'EPRT |1|127.0.0.1|x|',
    'EPSV 9',
  ])
  t.match(await session.command('EPRT |3|x|10240|'), /^501 /)
  t.match(await session.command('EPRT |3|1.1.1.1|10240|'), /^522 /)
  t.match(await session.command('EPSV 2'), /^522 /)
  t.match(await session.command('STOR bounced.csv'), /^425 /, 'nothing of that is kept')
  t.match(await session.command('EPSV ALL'), /^200 /)
  t.match(await session.command('PASV'), /^503 /)
  t.match(await session.command('PORT 127,0,0,1,40,0'), /^503 /)
  t.match(await session.upload('STOR epsv.csv', 'x'), /^226 /)
  session.close()
})

const hasIPv6 = await once(createServer().listen(0, '::1').unref(), 'listening').then(
  () => true,
  () => false,
)
t.test('IPv6 clients are served', { skip: hasIPv6 ? false : 'this machine has no ::1' }, async (t) => {
  const front = await start(t, { host: '::1' })
  const session = await FtpSession.open(front.url)
  t.match(await session.upload('STOR six.csv', 'six'), /^226 /)
  t.match(await session.command('PASV'), /^522 /)
  t.match(await session.command('EPSV 1'), /^522 .*\(2\)/)
  const { port, accepted, close } = await listenForServer('::1')
  t.match(await session.command(`EPRT |2|0:0:0:0:0:0:0:1|${port}|`), /^200 /)
  session.write('NLST\r\n')
  const [socket] = await accepted
  socket.resume()
  t.match(await session.reply(), /^150 /)
  t.match(await session.reply(), /^226 /)
  close()
  session.close()
})

t.test('too many sessions are refused with a reply that arrives', async (t) => {
  const front = await start(t, {
    tls: offered,
    sessions: { inProcess: 3, perAddress: 2, perAccount: 100 },
  })
  const refused = async (url: string, sentence: RegExp, from?: string) => {
    const session = new FtpSession(url, from)
    // The client sends before it reads: unread data must not cost the reply.
    if (url.startsWith('ftps')) await session.startTls()
    session.write(`USER api\r\nPASS ${bootstrapKey}\r\n${'NOOP\r\n'.repeat(100)}`)
    t.match(await session.reply(), sentence)
    await session.ended()
  }
  const [first, second] = [await FtpSession.open(front.url), await FtpSession.open(front.url)]
  await refused(front.url, /^421 .*this address/)
  await refused(front.implicitUrl, /^421 .*this address/)
  if (process.platform === 'linux') {
    const elsewhere = await FtpSession.connect(front.url, '127.0.0.2')
    await refused(front.url, /^421 .*the server/, '127.0.0.3')
    elsewhere.close()
  }
  t.match(await first.command('NOOP'), /^200 /)
  first.close()
  const next = await until(
    'a free place',
    async () => {
      const session = new FtpSession(front.url)
      return { session, answer: await session.reply() }
    },
    ({ answer }) => answer.startsWith('220'),
  )
  for (const session of [second, next.session]) session.close()
})

t.test('too many sessions of one account are refused, others have theirs', async (t) => {
  const front = await start(t, { sessions: { inProcess: 10, perAddress: 10, perAccount: 1 } })
  const first = await FtpSession.open(front.url)
  const second = await FtpSession.connect(front.url)
  t.match(await second.login(), /^421 .*this account/)
  await second.ended()
  const stranger = await FtpSession.open(front.url, await newAccount())
  first.close()
  await until(
    'a free place',
    async () => {
      const session = await FtpSession.connect(front.url)
      const answer = await session.login()
      session.close()
      return answer
    },
    (answer) => answer.startsWith('230'),
  )
  stranger.close()
})

t.test('three wrong passwords end the session', async (t) => {
  const session = await FtpSession.connect(plain.url)
  t.match(await session.command(`PASS ${bootstrapKey}`), /^503 /)
  for (let tries = 0; tries < 3; tries += 1) t.match(await session.login('wrong_key_0123456789'), /^530 /)
  t.equal(await session.ended(), '')
})

t.test('a client that doesn’t log in is disconnected', async (t) => {
  const front = await start(t, { timeouts: { loginMs: 300 } })
  const session = await FtpSession.connect(front.url)
  const knocking = setInterval(() => session.write('NOOP\r\n'), 50)
  t.match(await session.ended(), /421 no login within/)
  clearInterval(knocking)
})

t.test('a silent client is disconnected, but a transfer may take longer', async (t) => {
  const front = await start(t, { timeouts: { idleMs: 3_000 } })
  // On a busy machine the login and the command may be further apart than that.
  const { session, data } = await repeatWhile(
    async () => {
      const session = await FtpSession.open(front.url)
      return { session, data: await session.beginUpload('STOR patient.csv').catch(() => null) }
    },
    ({ data }) => data === null,
  )
  for (let pieces = 0; pieces < 9; pieces += 1) {
    data!.write('x')
    await sleep(500)
  }
  data!.end()
  t.match(await session.reply(), /^226 /)
  t.match(await session.reply(), /^421 no command for/)
  await session.ended()
})

t.test('a transfer that stalls is broken off, and its upload can be resumed', async (t) => {
  const front = await start(t, { tls: offered, timeouts: { stallMs: 5_000 } })
  const sessions = await Promise.all([FtpSession.open(front.url), FtpSession.openPrivate(front.url)])
  await Promise.all(
    sessions.map(async (session, i) => {
      const name = `stalled-${i}.csv`
      const data = await session.beginUpload(`STOR ${name}`)
      data.write('half, ')
      t.match(await session.reply(), /^426 /)
      t.equal(await isPublished(name), false)
      session.close()
      const other = await FtpSession.open(plain.url)
      t.match(await other.upload(`APPE ${name}`, 'whole'), /^226 /)
      t.equal((await other.download(`RETR ${name}`)).text, 'half, whole')
      other.close()
    }),
  )
})

t.test('sessions end with their key, in the middle of an upload too', async (t) => {
  const { apiKeys } = collections
  const front = await start(t, { timeouts: { keyPollMs: 100 } })
  const other = await FtpSession.open(front.url)
  const endings: [string, (id: number) => Promise<unknown>][] = [
    ['deleted', (id) => service.call('DELETE', `/api_keys/${id}`)],
    ['inactive', (id) => service.call('PUT', `/api_keys/${id}`, { api_key: { active: false } })],
    ['forbidden', (id) => apiKeys.updateOne({ _id: id }, { $set: { role: 'standard' } })],
    ['orphaned', (id) => apiKeys.updateOne({ _id: id }, { $set: { user_id: 987_654 } })],
  ]
  for (const [how, end] of endings) {
    const { id, key } = await service.post('/api_keys', { api_key: { name: how } })
    const [idle, busy] = [await FtpSession.open(front.url, key), await FtpSession.open(front.url, key)]
    const data = await busy.beginUpload(`STOR ${how}.csv`)
    data.write('half')
    await arrived(busy, 4)
    await end(id)
    t.match(await idle.reply(), /^421 .*key/, how)
    t.match(await busy.reply(), /^421 .*key/, how)
    data.end()
    await busy.ended()
    t.equal(await isPublished(`${how}.csv`), false, how)
    t.match(await other.upload(`APPE ${how}.csv`, ' and half'), /^226 /)
    t.equal((await other.download(`RETR ${how}.csv`)).text, 'half and half')
    t.match(await (await FtpSession.connect(front.url)).login(key), /^530 /)
  }
  other.close()
})

t.test('a database that is away ends no session', async (t) => {
  let polls = 0
  const find = (filter: { _id?: unknown }, options: object) => {
    if (filter._id === undefined) return collections.apiKeys.find(filter as object, options)
    polls += 1
    throw new Error('the database is away')
  }
  const apiKeys = Object.create(collections.apiKeys, { find: { value: find } }) as never
  const front = await start(t, {
    collections: { ...collections, apiKeys },
    timeouts: { keyPollMs: 20 },
  })
  const session = await FtpSession.open(front.url)
  await until(
    'some polls',
    async () => polls,
    (count) => count > 5,
  )
  t.match(await session.command('NOOP'), /^200 /)
  session.close()
})

t.test('a stop breaks transfers off, and their uploads can be resumed', async (t) => {
  const front = await start(t, { tls: offered })
  const sessions = [await FtpSession.open(front.url), await FtpSession.openPrivate(front.url)]
  const other = await FtpSession.open(plain.url)
  for (const [index, session] of sessions.entries()) {
    const data = await session.beginUpload(`STOR stopped-${index}.csv`)
    data.write('some')
    await arrived(session, 4)
  }
  await front.stop()
  await front.stop()
  for (const [index, session] of sessions.entries()) {
    t.match(await session.ended(), /421 the server is stopping; connect again later to resume\r\n/)
    t.match(await other.upload(`STOR stopped-${index}.csv`, 'thing', 4), /^226 /)
    t.equal((await other.download(`RETR stopped-${index}.csv`)).text, 'something')
  }
  await t.rejects(once(connect(front.port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  t.match(await front.registry.metrics(), /^rollcall_ftp_sessions 0$/m)
  other.close()
})

t.test('files have exact facts', async (t) => {
  const session = await FtpSession.open(plain.url)
  await session.upload('STOR naïve 事实.csv', '12345')
  const time = /^213 (\d{14})$/.exec(await session.command('MDTM naïve 事实.csv'))![1]!
  const line = `type=file;size=5;modify=${time};perm=adfrw; naïve 事实.csv`
  t.equal((await session.command('MLST naïve 事实.csv')).split('\r\n')[1], ` ${line}`)
  t.equal((await session.download('MLSD')).text.split('\r\n').filter((text) => text === line).length, 1)
  t.match(await session.command('MLST'), /\r\n type=dir;modify=\d{14};perm=cel; \/\r\n/)
  t.match(await session.command('OPTS MLST size;nonsense;TYPE;'), /^200 MLST OPTS type;size;$/)
  t.match(await session.command('FEAT'), / MLST type\*;size\*;modify;perm;\r\n/)
  t.equal(
    (await session.command('MLST naïve 事实.csv')).split('\r\n')[1],
    ' type=file;size=5; naïve 事实.csv',
  )
  t.match(await session.command('OPTS MLST'), /^200 MLST OPTS$/)
  t.match((await session.download('MLSD')).text, /(^|\n) naïve 事实.csv\r\n/)
  t.match((await session.download('MLSD naïve 事实.csv')).last, /^501 /)
  t.match((await session.download('MLSD ../x')).last, /^550 /)
  t.match(await session.command('MLST nothing.csv'), /^550 /)
  t.match(await session.command('STAT naïve 事实.csv'), /^213-[\s\S]* 5 .* naïve 事实\.csv\r\n213 /)
  session.close()
})

t.test('commands have their codes', async (t) => {
  const session = await FtpSession.connect(plain.url)
  const beforeLogin = [
    'PWD',
    'LIST',
    'STOR x',
    'PASV',
    'PORT 1',
    'SIZE x',
    'RNFR x',
    'MLSD',
    'STAT',
    'REST 1',
  ]
  await checkReplies(t, session, /^530 /, beforeLogin)
  t.match(await session.command('USER'), /^501 /)
  await session.command('USER api')
  t.match(await session.command('PASS'), /^501 /)
  t.match(await session.login(), /^230 /)
  const codes: Record<string, number> = {
    'USER api': 530,
    [`PASS ${bootstrapKey}`]: 202,
    NOOP: 200,
    SYST: 215,
    HELP: 211,
    'HELP MLSD': 214,
    'HELP NONSENSE': 502,
    PWD: 257,
    'CWD /': 250,
    'CWD //': 250,
    'CWD ~': 250,
    'CWD folder': 550,
    CDUP: 250,
    'MKD folder': 550,
    'RMD folder': 550,
    'RMD /': 550,
    'SITE CHMOD 777 x': 200,
    STOU: 502,
    SMNT: 502,
    'TYPE A': 200,
    'TYPE A N': 200,
    'TYPE I': 200,
    'TYPE L 8': 200,
    'TYPE E': 504,
    TYPE: 501,
    'MODE S': 200,
    'MODE B': 504,
    'STRU F': 200,
    'STRU R': 504,
    'ALLO 10': 200,
    'REST -1': 501,
    'REST 9e9': 501,
    'REST 99999999999999999999': 501,
    'REST 0': 350,
    'RNTO x': 503,
    'RNFR nothing.csv': 550,
    'RNFR /': 550,
    'DELE /': 553,
    'DELE nothing.csv': 550,
    STAT: 211,
    'STAT nothing.csv': 550,
    'OPTS UTF8 ON': 200,
    'OPTS UTF8 OFF': 501,
    hElP: 211,
    nonsense: 500,
    'N\u00d6\u00d6P': 500,
    __proto__: 500,
  }
  for (const [line, code] of Object.entries(codes))
    t.match(await session.command(line), new RegExp(`^${code}[ -]`), line)
  await session.upload('STOR from.csv', 'x')
  t.match(await session.command('RNFR from.csv'), /^350 /)
  t.match(await session.command('RNTO ../to.csv'), /^55\d /)
  t.match(await session.command('RNTO to.csv'), /^503 /, 'RNFR is for one RNTO')
  session.close()
})

t.test('lines come in any packets, in order, and are bounded', async (t) => {
  const session = await FtpSession.open(plain.url)
  for (const byte of 'NOOP\r') {
    session.write(byte)
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.match(await session.command(''), /^200 /)
  session.write('SYST\nNOOP\r\n\r\nPWD\r\nSIZE nothing\0.csv\r\nNOOP\r\n')
  for (const code of [215, 200, 257, 501, 200]) t.match(await session.reply(), new RegExp(`^${code} `))
  session.write(`${'NOOP\r\n'.repeat(1_000)}SYST\r\n`)
  for (let replies = 0; replies < 1_000; replies += 1)
    if (!(await session.reply()).startsWith('200 ')) t.fail('a reply is out of order')
  t.match(await session.reply(), /^215 /)
  t.match(await session.command(`SIZE ${'x'.repeat(1_000)}`), /^55\d /)
  session.write('x'.repeat(5_000))
  t.match(await session.reply(), /^500 .*too long/)
  await session.ended()
})

t.test('STAT is answered during a transfer, other commands after it', async (t) => {
  const session = await FtpSession.open(plain.url)
  const data = await session.beginUpload('STOR watched.csv')
  data.write('12345')
  await arrived(session, 5)
  session.write('NOOP\r\n')
  data.end()
  t.match(await session.reply(), /^226 /)
  t.match(await session.reply(), /^200 /)
  t.match(await session.command('STAT'), /^211 no transfer in progress/)
  session.close()
})

t.test('no account sees another account’s files', async (t) => {
  const [one, two] = [await FtpSession.open(plain.url), await FtpSession.open(plain.url, await newAccount())]
  await one.upload('STOR private.csv', 'mine')
  t.same((await two.download('NLST')).text, '')
  for (const path of ['private.csv', '../../1/private.csv', '/../1/private.csv'])
    for (const command of ['SIZE', 'MDTM', 'MLST', 'DELE', 'RNFR'])
      t.match(await two.command(`${command} ${path}`), /^55[03] /, `${command} ${path}`)
  t.match(await two.upload('STOR private.csv', 'theirs'), /^226 /)
  t.equal((await one.download('RETR private.csv')).text, 'mine')
  for (const session of [one, two]) session.close()
})
