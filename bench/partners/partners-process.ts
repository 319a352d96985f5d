import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { Client } from 'basic-ftp'
import { largeFile, type PartnersOrder, type PartnersReport } from './partners.ts'

/** The partners' side: as many FTP clients as there are keys, and one more that uploads small files all the time. */

process.on('message', (order: PartnersOrder) => {
  void upload(order).then((report) => process.send!(report))
})
process.on('disconnect', () => process.exit())

const megabyte = 1_000_000

async function upload(order: PartnersOrder): Promise<PartnersReport> {
  const content = randomBytes(megabyte)
  const hashes = order.keys.map((_, partner) => hashOf(order, content, partner))
  const done = new AbortController()
  const [smallMs, keptMs] = [smallFiles(order, done.signal), keptSession(order, done.signal)]
  const startedAt = performance.now()
  await Promise.all(
    order.keys.map(async (key, partner) => {
      const client = await connect(order, key)
      await client.uploadFrom(Readable.from(pieces(order, content, partner)), largeFile)
      client.close()
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  done.abort()
  return { seconds, hashes, smallMs: await smallMs, keptMs: await keptMs }
}

/** Each partner's file is another one, and none is held in memory. */
function* pieces({ megabytes, seed }: PartnersOrder, content: Buffer, partner: number): Generator<Buffer> {
  const mark = Buffer.from(`${seed}:${partner}:`)
  for (let i = 0; i < megabytes; i += 1) {
    yield mark
    yield content.subarray(mark.length)
  }
}

function hashOf(order: PartnersOrder, content: Buffer, partner: number): string {
  const hash = createHash('sha256')
  for (const piece of pieces(order, content, partner)) hash.update(piece)
  return hash.digest('hex')
}

async function smallFiles(order: PartnersOrder, signal: AbortSignal): Promise<number[]> {
  const taken: number[] = []
  while (!signal.aborted) {
    const startedAt = performance.now()
    const client = await connect(order, order.smallKey)
    await client.uploadFrom(Readable.from([randomBytes(1_000)]), `small-${taken.length}.csv`)
    taken.push(performance.now() - startedAt)
    client.close()
  }
  return taken
}

async function keptSession(order: PartnersOrder, signal: AbortSignal): Promise<number[]> {
  const taken: number[] = []
  const client = await connect(order, order.smallKey)
  while (!signal.aborted) {
    const startedAt = performance.now()
    await client.uploadFrom(Readable.from([randomBytes(1_000)]), `kept-${taken.length % 10}.csv`)
    taken.push(performance.now() - startedAt)
  }
  client.close()
  return taken
}

async function connect({ host, port, tls }: PartnersOrder, key: string): Promise<Client> {
  const client = new Client(60_000)
  await client.access({
    host,
    port,
    user: 'api',
    password: key,
    secure: tls,
    // The certificate is made for this run.
    secureOptions: { rejectUnauthorized: false },
  })
  return client
}
