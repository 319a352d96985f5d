import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'
import { Client } from 'basic-ftp'
import t from 'tap'
import { makeCertificate } from '../helpers/certificate.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { bootstrapKey, startService, until } from '../helpers/service.ts'

const service = await startService(t, ['control-plane'])
const work = path.join(service.dataFolder, 'client files')
await mkdir(work)
const { cert, key } = await makeCertificate(work, 'many')
const settings = { FTP_TLS_CERT: cert, FTP_TLS_KEY: key }
const ftp = await service.start('ftp', settings)
const url = ftp.ready.ftp!
const { hostname, port } = new URL(url)

const hashOf = (content: Uint8Array) => createHash('sha256').update(content).digest('hex')

async function open(secure: boolean): Promise<Client> {
  // Patient: a hundred of them share a slow machine.
  const client = new Client(120_000)
  const secureOptions = { rejectUnauthorized: false }
  await client.access({
    host: hostname,
    port: Number(port),
    user: 'api',
    password: bootstrapKey,
    secure,
    secureOptions,
  })
  return client
}

async function download(client: Client, name: string): Promise<Buffer> {
  const pieces: Buffer[] = []
  const into = new Writable({
    write(chunk: Buffer, _encoding, done) {
      pieces.push(chunk)
      done()
    },
  })
  await client.downloadTo(into, name)
  return Buffer.concat(pieces)
}

t.test('a hundred sessions at once', async (t) => {
  const upload = async (index: number): Promise<boolean> => {
    const content = randomBytes(20_000 + index)
    const client = await open(index % 2 === 1)
    await client.uploadFrom(Readable.from([content]), `parallel-${index}.csv`)
    const back = await download(client, `parallel-${index}.csv`)
    client.close()
    return hashOf(back) === hashOf(content)
  }
  const results = await Promise.all(Array.from({ length: 100 }, (_, index) => upload(index)))
  t.equal(results.filter(Boolean).length, 100)
})

/** Resolves to curl's exit code; 127 when there is none. */
const curl = (args: string[]) =>
  new Promise<number>((resolve) => {
    const all = ['-sS', '--user', `api:${bootstrapKey}`, '--ssl-reqd', '--insecure', ...args]
    execFile('curl', all, (error) => {
      resolve(error === null ? 0 : typeof error.code === 'number' ? error.code : 127)
    })
  })
const noCurl = (await curl(['--version'])) === 127 ? 'there is no curl here' : false

t.test('an upload goes on after the server was killed', { skip: noCurl }, async (t) => {
  const file = path.join(work, 'big.csv')
  const content = randomBytes(1_500_000)
  await writeFile(file, content)
  const target = `${url}/survivor.csv`
  const slow = curl(['--limit-rate', '200k', '-T', file, target])
  const watching = await FtpSession.open(url)
  await until(
    'some bytes',
    () => watching.command('SIZE survivor.csv'),
    (reply) => /^213 [1-9]/.test(reply),
  )
  await ftp.stop('SIGKILL')
  t.not(await slow, 0)
  await service.start('ftp', { ...settings, FTP_PORT: port })
  const client = await open(true)
  t.notOk((await client.list()).some(({ name }) => name === 'survivor.csv'))
  // As if the lease of the killed process had run out.
  await service.collections.uploadLocks.updateMany({}, { $set: { lease_until: new Date(0) } })
  t.equal(await curl(['-C', '-', '-T', file, target]), 0)
  t.equal(hashOf(await download(client, 'survivor.csv')), hashOf(content))
  client.close()
})
