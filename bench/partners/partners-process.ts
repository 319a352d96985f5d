import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import {
  connect,
  largeFile,
  type FtpAccount,
  type LargeFiles,
  type PartnersOrder,
  type SmallFiles,
} from './partners.ts'

/** The processes of partners.ts. */
const stopped = new AbortController()
process.on('message', (order: PartnersOrder) => {
  if (order.kind === 'end') stopped.abort()
  else
    void (order.kind === 'large' ? uploadLarge(order) : uploadSmall(order.account)).then((report) =>
      process.send?.(report),
    )
})
process.on('disconnect', () => process.exit())

type LargeOrder = Extract<PartnersOrder, { kind: 'large' }>

async function uploadLarge(order: LargeOrder): Promise<LargeFiles> {
  const content = randomBytes(1_000_000)
  const hashes = order.accounts.map((_, partner) => {
    const hash = createHash('sha256')
    for (const piece of pieces(order, content, partner)) hash.update(piece)
    return hash.digest('hex')
  })
  const startedAt = performance.now()
  await Promise.all(
    order.accounts.map(async (account, partner) => {
      const client = await connect(account)
      await client.uploadFrom(Readable.from(pieces(order, content, partner)), largeFile)
      client.close()
    }),
  )
  return { seconds: (performance.now() - startedAt) / 1000, hashes }
}

/** Each partner has another file, and none is whole in memory. */
function* pieces({ megabytes, seed }: LargeOrder, content: Buffer, partner: number): Generator<Buffer> {
  const mark = Buffer.from(`${seed}:${partner}:`)
  for (let i = 0; i < megabytes; i += 1) {
    yield mark
    yield content.subarray(mark.length)
  }
}

async function uploadSmall(account: FtpAccount): Promise<SmallFiles> {
  const content = randomBytes(1_000)
  const smallHash = createHash('sha256').update(content).digest('hex')
  const smallMs: number[] = []
  while (!stopped.signal.aborted) {
    const startedAt = performance.now()
    const client = await connect(account)
    await client.uploadFrom(Readable.from([content]), `small-${smallMs.length}.csv`)
    client.close()
    smallMs.push(performance.now() - startedAt)
  }
  return { smallMs, smallHash }
}
