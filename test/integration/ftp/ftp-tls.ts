import { constants } from 'node:crypto'
import { once } from 'node:events'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { Duplex } from 'node:stream'
import * as tls from 'node:tls'
import t from 'tap'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { makeCertificate } from '../../helpers/certificate.ts'
import { ftpFronts } from '../../helpers/ftp-front.ts'
import { FtpSession } from '../../helpers/ftp-session.ts'
import { bootstrapKey, until } from '../../helpers/service.ts'
import { service } from './service.ts'

const pems = path.join(service.dataFolder, 'pem files')
await mkdir(pems, { recursive: true })
const [good, other] = [await makeCertificate(pems, 'good'), await makeCertificate(pems, 'other')]
const offered = { ...good, implicitPort: 0, isRequired: false, mustResume: true }
const { start } = await ftpFronts(t, service)
const plain = await start(t)
const withTls = await start(t, { tls: offered })

/** Whether a file is there under its final name. */
const isPublished = async (name: string) => {
  const session = await FtpSession.open(plain.url)
  const { text } = await session.download('NLST')
  session.close()
  return text.split('\r\n').includes(name)
}

for (const [kind, open] of [
  ['explicit', () => FtpSession.openPrivate(withTls.url)],
  [
    'implicit',
    async () => {
      const session = await FtpSession.connect(withTls.implicitUrl)
      t.match(await session.login(), /^230 /)
      return session
    },
  ],
] as const)
  t.test(`files go both ways in TLS: ${kind}`, async (t) => {
    const session = await open()
    const name = `${kind}.csv`
    t.match(await session.upload(`STOR ${name}`, 'email\nann@example.com\n'), /^226 /)
    t.match(await session.upload(`APPE ${name}`, 'ben@example.com\n'), /^226 /)
    t.equal((await session.download(`RETR ${name}`)).text, 'email\nann@example.com\nben@example.com\n')
    t.match((await session.download('MLSD')).text, new RegExp(`type=file;size=38;.* ${name}\r\n`))
    t.match(await session.upload('STOR empty.csv', ''), /^226 /)
    t.match(await session.command('SIZE empty.csv'), /^213 0$/)
    t.match(await session.command('PROT C'), /^200 /)
    session.isPrivate = false
    t.equal((await session.download(`RETR ${name}`)).text.length, 38, 'and in the clear when that is wanted')
    t.match(await session.command('QUIT'), /^221 /)
    session.close()
  })

t.test('TLS has its codes', async (t) => {
  const session = await FtpSession.connect(withTls.url)
  t.match(await session.command('FEAT'), / AUTH TLS\r\n[\s\S]* PBSZ\r\n PROT\r\n/)
  t.match(await session.command('PROT P'), /^503 /)
  t.match(await session.command('PBSZ 0'), /^503 /)
  t.match(await session.command('AUTH KERBEROS_V4'), /^504 /)
  t.match(await session.command('AUTH'), /^504 /)
  t.match(await session.command('AUTH TLS'), /^234 /)
  await session.startTls()
  t.match(await session.command('AUTH TLS'), /^503 /)
  t.match(await session.command('PBSZ 4096'), /^200 PBSZ=0/)
  t.match(await session.command('PBSZ'), /^501 /)
  t.match(await session.command('PROT S'), /^536 /)
  t.match(await session.command('PROT X'), /^504 /)
  t.match(await session.command('CCC'), /^534 /)
  t.match(await session.login(), /^230 /)
  session.close()
})

t.test('bytes in the clear after AUTH are discarded', async (t) => {
  await (await FtpSession.open(plain.url)).upload('STOR victim.csv', 'still here')
  for (const injected of [
    `USER api\r\nPASS ${bootstrapKey}\r\nDELE victim.csv\r\n`,
    `USER api\r\nPASS ${bootstrapKey.slice(0, 5)}`,
    'NOOP\r\n'.repeat(50),
    '\r\n\0\xff',
  ]) {
    const session = await FtpSession.connect(withTls.url)
    session.write(`AUTH TLS\r\n${injected}`)
    t.match(await session.reply(), /^234 /)
    await session.startTls()
    t.match(await session.command('SYST'), /^215 /, 'nothing else is answered')
    t.match(await session.command(`PASS ${bootstrapKey}`), /^503 /, 'no USER has survived')
    t.match(await session.login(), /^230 /)
    t.match(await session.command('SIZE victim.csv'), /^213 10$/)
    session.close()
  }
  const session = await FtpSession.connect(withTls.url)
  await session.command('USER api')
  await session.command('AUTH TLS')
  await session.startTls()
  t.match(await session.command(`PASS ${bootstrapKey}`), /^503 /, 'nor one from before it')
  session.close()
})

t.test('AUTH comes before the login, and commands after a refused one are answered', async (t) => {
  const session = await FtpSession.open(withTls.url)
  session.write('AUTH TLS\r\n')
  t.match(await session.reply(), /^503 /)
  t.match(await session.command('NOOP'), /^200 /)
  session.close()
})

t.test('a handshake that is none ends the connection', async (t) => {
  const session = await FtpSession.connect(withTls.url)
  await session.command('AUTH TLS')
  session.write('USER api\r\n')
  t.equal((await session.ended()).match(/^\d{3}/), null)
})

t.test('a data connection that should be in TLS and is not brings nothing', async (t) => {
  const session = await FtpSession.openPrivate(withTls.url)
  for (const content of ['', 'in the clear']) {
    const data = await session.data()
    t.match(await session.command('STOR clear.csv'), /^150 /)
    data.end(content)
    t.match(await session.reply(), /^425 /)
  }
  t.equal(await isPublished('clear.csv'), false)
  session.close()
})

t.test('a data connection in TLS proves that it is its session’s', async (t) => {
  const session = await FtpSession.openPrivate(withTls.url)
  t.match(await session.upload('STOR mine.csv', 'email\n'), /^226 /)
  const stranger = await FtpSession.openPrivate(withTls.url)
  t.match(await stranger.download('NLST'), { text: /mine\.csv/, last: /^226 / })
  for (const [title, resumes] of [
    ['no TLS session', false],
    ["another control connection's", true],
  ] as const) {
    const data = await session.data()
    t.match(await session.command('RETR mine.csv'), /^150 /)
    session.resumes = resumes
    const secure = session.secured(data, stranger.tlsSession())
    session.resumes = true
    let text = ''
    secure.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    t.match(await session.reply(), /^522 .*resume the TLS session/, title)
    t.equal(text, '')
    secure.destroy()
  }
  session.resumes = false
  t.match(await session.upload('STOR theirs.csv', 'email\n'), /^522 /)
  t.equal(await isPublished('theirs.csv'), false)
  session.resumes = true
  t.match(
    await session.download('RETR mine.csv'),
    { text: 'email\n', last: /^226 / },
    'the session continues',
  )
  session.close()
  stranger.close()

  const lenient = await start(t, { tls: { ...offered, mustResume: false } })
  const old = await FtpSession.openPrivate(lenient.url)
  old.resumes = false
  t.match(await old.upload('STOR lenient.csv', 'email\n'), /^226 /)
  old.close()
})

for (const version of ['TLSv1.2', 'TLSv1.3', 'either'] as const)
  t.test(`a client that uses each ticket once is served each time: ${version}`, async (t) => {
    const session = await FtpSession.connect(withTls.url)
    await session.command('AUTH TLS')
    const versions = version === 'either' ? {} : { minVersion: version, maxVersion: version }
    await session.startTls(versions)
    t.match(await session.login(), /^230 /)
    t.match(await session.command('PROT P'), /^200 /)
    let ticket = session.tlsSession()
    for (let transfers = 1; transfers <= 8; transfers += 1) {
      const data = await session.data()
      t.match(await session.command('STOR tickets.csv'), /^150 /)
      const secure = tls.connect({ socket: data, rejectUnauthorized: false, session: ticket!, ...versions })
      // In TLS 1.2 a session may be resumed any number of times.
      if ((session.control as tls.TLSSocket).getProtocol() === 'TLSv1.3') ticket = undefined
      secure.on('session', (fresh) => (ticket = fresh)).resume()
      await once(secure, 'secureConnect')
      secure.end(`transfer ${transfers}`)
      t.match(await session.reply(), /^226 /, `transfer ${transfers}`)
      t.ok(ticket)
    }
    session.close()
  })

t.test('no later connection resumes the TLS session of a refused data connection', async (t) => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
    for (const secureOptions of [0, constants.SSL_OP_NO_TICKET]) {
      const versions = { minVersion: version, maxVersion: version, secureOptions }
      const session = await FtpSession.connect(withTls.url)
      await session.command('AUTH TLS')
      await session.startTls(versions)
      await session.login()
      await session.command('PROT P')
      let ofStranger: Buffer | undefined
      for (let connection = 1; connection <= 3; connection += 1) {
        const data = await session.data()
        t.match(await session.command('NLST'), /^150 /)
        const secure = tls.connect({
          socket: data,
          rejectUnauthorized: false,
          session: ofStranger,
          ...versions,
        })
        secure.on('session', (own) => (ofStranger = own)).on('error', () => undefined)
        let text = ''
        secure.setEncoding('utf8').on('data', (piece: string) => (text += piece))
        await once(secure, 'secureConnect')
        ofStranger ??= secure.getSession()
        t.match(await session.reply(), /^522 /, `${version}, options ${secureOptions}, ${connection}`)
        t.equal(text, '')
        secure.destroy()
      }
      session.close()
    }
})

t.test('a TLS hello may come in pieces, as large ones do', async (t) => {
  const { hostname, port } = new URL(withTls.implicitUrl)
  const control = connect(Number(port), hostname)
  const inPieces = new Duplex({
    read: () => undefined,
    write(bytes: Buffer, _encoding, done) {
      control.write(bytes.subarray(0, 20))
      setTimeout(() => control.write(bytes.subarray(20), done), 100)
    },
  })
  control.on('data', (bytes) => inPieces.push(bytes))
  const secure = tls.connect({ socket: inPieces, rejectUnauthorized: false, minVersion: 'TLSv1.3' })
  await once(secure, 'secureConnect')
  t.equal(secure.getProtocol(), 'TLSv1.3')
  secure.destroy()
  control.destroy()
})

t.test('a server that requires TLS refuses logins and data without it', async (t) => {
  const strict = await start(t, { tls: { ...offered, isRequired: true } })
  const session = await FtpSession.connect(strict.url)
  t.match(await session.command('USER api'), /^530 .*AUTH TLS/)
  t.match(await session.command(`PASS ${bootstrapKey}`), /^530 /)
  t.match(await session.command('AUTH TLS'), /^234 /)
  await session.startTls()
  t.match(await session.login(), /^230 /)
  for (const line of ['STOR x.csv', 'APPE x.csv', 'RETR x.csv', 'LIST', 'NLST', 'MLSD']) {
    const data = await session.data()
    t.match(await session.command(line), /^521 /, line)
    data.destroy()
  }
  t.match(await session.command('PROT C'), /^534 /)
  t.match(await session.command('PROT P'), /^200 /)
  session.isPrivate = true
  t.match(await session.upload('STOR strict.csv', 'x'), /^226 /)
  session.close()
})

t.test('a renewed certificate is used without a restart, a broken one is not', async (t) => {
  const [cert, key] = [path.join(pems, 'live.crt'), path.join(pems, 'live.key')]
  await copyFile(good.cert, cert)
  await copyFile(good.key, key)
  const log: string[] = []
  const note = (text: unknown) => typeof text === 'string' && log.push(text)
  const front = await start(t, {
    tls: { cert, key, implicitPort: null, isRequired: false, mustResume: true },
    timeouts: { certificateWatchMs: 50 },
    log: Object.assign(createLogger({ process: 'ftp', level: 'silent' }), { info: note, warn: note }),
  })
  const shown = async () => {
    const session = await FtpSession.connect(front.url)
    await session.command('AUTH TLS')
    await session.startTls()
    const { subject } = (session.control as tls.TLSSocket).getPeerCertificate()
    session.close()
    return subject.CN
  }
  const logged = (count: number) =>
    until(
      'a check of the files',
      async () => log.length,
      (length) => length >= count,
    )
  t.equal(await shown(), 'good')
  await writeFile(cert, 'no certificate')
  await logged(1)
  t.match(log[0], /changed but is not used.*live\.crt/)
  t.equal(await shown(), 'good')
  await copyFile(other.cert, cert)
  await logged(2)
  t.match(log[1], /changed but is not used/, 'with the key of another one')
  t.equal(await shown(), 'good')
  await copyFile(other.key, key)
  await until('the new certificate', shown, (name) => name === 'other')
})

t.test('a start with a wrong pair says which settings are wrong', async (t) => {
  const rejected = (tls: object) =>
    t.rejects(start(t, { tls: { ...offered, ...tls } }), /FTP_TLS_CERT.*FTP_TLS_KEY/)
  await rejected({ cert: '/nowhere/x.crt' })
  await rejected({ key: other.key })
  await rejected({ cert: good.key })
})

t.test('the process has the settings', async (t) => {
  const running = await service.start('ftp', {
    FTP_TLS_CERT: good.cert,
    FTP_TLS_KEY: good.key,
    FTPS_PORT: '0',
    FTP_TLS_REQUIRED: 'true',
  })
  const { ftp, ftps } = running.ready as unknown as { ftp: string; ftps: string }
  const session = await FtpSession.connect(ftps)
  t.match(await session.login(), /^230 /)
  t.match(await session.upload('STOR process.csv', 'x'), /^226 /)
  session.close()
  const clear = await FtpSession.connect(ftp)
  t.match(await clear.command('USER api'), /^530 /)
  clear.close()
  const refusals = await until(
    'the line of the refused login',
    async () => running.log().match(/.*"login_refused".*/g) ?? [],
    (lines) => lines.length > 0,
  )
  t.match(refusals, [/"address":"127\.0\.0\.1".*"reason":"this server requires TLS/])
})
