import { connect } from 'node:net'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { makeCertificate } from '../../helpers/certificate.ts'
import { ftpFronts } from '../../helpers/ftp-front.ts'
import { FtpSession } from '../../helpers/ftp-session.ts'
import { bootstrapKey } from '../../helpers/service.ts'
import { service } from './service.ts'

// What a session remembers from one command to the next, for how long, and what makes it forget.
const { start } = await ftpFronts(t, service)
const server = await start(t, { uploadLimits: { files: Infinity, bytes: 1_000 } })

/** A session in an empty upload directory with a quota of 1,000 bytes. */
async function newSession(): Promise<FtpSession> {
  const { id } = await service.post('/organizations', { organization: { name: 'Session state' } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'ftp' } })
  return FtpSession.open(server.url, key)
}

t.test('ALLO announces the size of one upload, which may bring less or more', async (t) => {
  const session = await newSession()
  t.match(await session.command('ALLO 1001'), /^200 /)
  await t.rejects(session.upload('STOR one.csv', '12345'), /^552 /, 'more than the quota')
  t.match(await session.upload('STOR one.csv', '12345'), /^226 /, 'forgotten after the refused one')
  t.match(await session.command('ALLO 900 R 80'), /^200 /)
  t.match(await session.upload('STOR two.csv', '12345'), /^226 /)
  t.match(await session.upload('STOR three.csv', 'x'.repeat(900)), /^226 /, 'unused quota is free again')
  t.match(await session.command('ALLO 1'), /^200 /)
  t.match(await session.upload('STOR four.csv', '12345'), /^226 /)
  t.match(await session.command('ALLO 90'), /^200 /)
  await t.rejects(session.upload('APPE four.csv', '6'), /^552 /, 'added to the 915 that are there')
  t.match(await session.upload('APPE four.csv', '6'), /^226 /)
  t.equal((await session.download('RETR four.csv')).text, '123456')
  // With five.csv there are 946 bytes, so 54 are free.
  t.match(await session.upload('STOR five.csv', 'x'.repeat(30)), /^226 /)
  t.match(await session.command('ALLO 25'), /^200 /)
  await t.rejects(session.upload('APPE five.csv', '7'), /^552 /, 'beside the 30 that APPE keeps')
  t.match(await session.command('ALLO 24'), /^200 /)
  t.match(await session.upload('APPE five.csv', '7'), /^226 /, 'the last byte of the quota')
  session.close()
})

t.test('REST is for one transfer, and the last one counts', async (t) => {
  const session = await newSession()
  await session.upload('STOR a.csv', '0123456789')
  await session.command('REST 4')
  await session.command('REST 7')
  t.equal((await session.download('RETR a.csv')).text, '789')
  t.equal((await session.download('RETR a.csv')).text, '0123456789', 'after a download')
  await session.command('REST 4')
  await session.command('REST 0')
  t.equal((await session.download('RETR a.csv')).text, '0123456789', 'REST 0')
  await session.command('REST 4')
  t.match(await session.command('REST nothing'), /^501 /)
  t.match(await session.upload('STOR a.csv', 'x', 2), /^226 /)
  t.equal((await session.download('RETR a.csv')).text, '01x', 'after an upload')
  session.close()
})

t.test('RNFR is for one RNTO, and the last one counts', async (t) => {
  const session = await newSession()
  const names = async () => (await session.download('NLST')).text.split('\r\n').filter(Boolean).sort()
  for (const name of ['a.csv', 'b.csv']) await session.upload(`STOR ${name}`, name)
  await session.command('RNFR a.csv')
  await session.command('RNFR b.csv')
  t.match(await session.command('RNTO c.csv'), /^250 /)
  t.same(await names(), ['a.csv', 'c.csv'])
  t.match(await session.command('RNTO d.csv'), /^503 /, 'after a rename')
  await session.command('RNFR a.csv')
  t.match(await session.command('RNFR nothing.csv'), /^550 /)
  t.match(await session.command('RNTO d.csv'), /^503 /, 'after an RNFR that was refused')
  t.same(await names(), ['a.csv', 'c.csv'])
  session.close()
})

t.test('a data connection is for one transfer, the last one counts, and ABOR drops it', async (t) => {
  const session = await newSession()
  const open = async () => {
    const [, port] = /\|(\d+)\|/.exec(await session.command('EPSV')) ?? []
    return Number(port)
  }
  const replaced = await open()
  t.match(await session.upload('STOR a.csv', '12345'), /^226 /)
  await t.rejects(once(connect(replaced, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  t.match(await session.command('RETR a.csv'), /^425 /, 'the one of the upload is used up')
  const dropped = await open()
  t.match(await session.command('ABOR'), /^226 /)
  await t.rejects(once(connect(dropped, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  t.match(await session.command('RETR a.csv'), /^425 /)
  t.match(await session.command('EPSV ALL'), /^200 /)
  for (const line of ['PASV', 'PORT 127,0,0,1,100,100', 'EPRT |1|127.0.0.1|25700|'])
    t.match(await session.command(line), /^503 /, `${line} after EPSV ALL`)
  t.equal((await session.download('RETR a.csv')).text, '12345')
  session.close()
})

t.test('USER is for one PASS, and AUTH forgets it', async (t) => {
  const pems = path.join(service.dataFolder, 'pems of a session')
  await mkdir(pems, { recursive: true })
  const certificate = await makeCertificate(pems, 'session')
  const tls = await start(t, {
    tls: { ...certificate, implicitPort: 0, isRequired: false, mustResume: true },
  })
  const session = await FtpSession.connect(tls.url)
  t.match(await session.command(`PASS ${bootstrapKey}`), /^503 /, 'without USER')
  await session.command('USER api')
  t.match(await session.command('PASS wrong'), /^530 /)
  t.match(await session.command(`PASS ${bootstrapKey}`), /^503 /, 'after a wrong password')
  await session.command('USER somebody')
  await session.command('USER api')
  await session.command('AUTH TLS')
  await session.startTls()
  t.match(await session.command(`PASS ${bootstrapKey}`), /^503 /, 'after AUTH')
  t.match(await session.login(), /^230 /)
  await session.command('PROT P')
  session.isPrivate = true
  t.match(await session.upload('STOR private.csv', 'x'), /^226 /)
  t.equal((await session.download('RETR private.csv')).text, 'x', 'PROT lasts')
  await session.command('PROT C')
  session.isPrivate = false
  t.equal((await session.download('RETR private.csv')).text, 'x', 'until the next PROT')
  session.close()
})
