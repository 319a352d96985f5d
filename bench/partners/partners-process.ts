import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { connect } from './connect.ts'
import { largeFile, type PartnersOrder, type LargeFilesReport } from './partners.ts'

/** The partners' side: as many FTP clients as there are keys. */

process.on('message', (order: PartnersOrder) => {
  void upload(order).then((report) => process.send!(report))
})
process.on('disconnect', () => process.exit())

const megabyte = 1_000_000

async function upload(order: PartnersOrder): Promise<LargeFilesReport> {
  const content = randomBytes(megabyte)
  const hashes = order.keys.map((_, partner) => hashOf(order, content, partner))
  const startedAt = performance.now()
  await Promise.all(
    order.keys.map(async (key, partner) => {
      const client = await connect({ ...order, key })
      await client.uploadFrom(Readable.from(pieces(order, content, partner)), largeFile)
      client.close()
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  return { seconds, hashes }
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
