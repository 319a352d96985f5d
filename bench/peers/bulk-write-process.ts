import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { parse } from 'csv-parse'
import { MongoClient, type AnyBulkWriteOperation, type Document } from 'mongodb'
import type { BulkWriteOrder } from './bulk-write.ts'

/** The process of the peer in bulk-write.ts: it is told its order once it is ready, and replies when all is written. */
process.send?.([])
const [order] = (await once(process, 'message')) as [BulkWriteOrder]
const { target, numbers, dates } = order

const client = await MongoClient.connect(target.uri, { writeConcern: { w: 'majority' } })
const subscribers = client.db(target.database).collection('subscribers')
const records: AsyncIterable<Record<string, string>> = createReadStream(order.file).pipe(
  parse({ columns: [...order.columns], from_line: 2, trim: true, bom: true }),
)
let batch: AnyBulkWriteOperation[] = []
for await (const record of records) {
  const email = record['email']?.toLowerCase() ?? ''
  if (!/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(email)) continue
  const document: Document = { ...record, email }
  for (const name of numbers) document[name] = Number(record[name])
  for (const name of dates) document[name] = new Date(String(record[name]))
  const update = order.overwrite ? { $set: document } : { $setOnInsert: document }
  batch.push({ updateOne: { filter: { email }, update, upsert: true } })
  if (batch.length === 1_000) await write()
}
if (batch.length > 0) await write()
await client.close()

process.send?.([])

async function write(): Promise<void> {
  await subscribers.bulkWrite(batch, { ordered: false })
  batch = []
}
