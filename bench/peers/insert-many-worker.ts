import { parentPort, workerData } from 'node:worker_threads'
import { MongoClient } from 'mongodb'
import type { SubscriberDocument } from '../../shared/schemas/subscriber.ts'
import { parseDateTime, toDate, toInstant } from '../../shared/values/date-time.ts'
import { customFields, SubscriberFile } from '../datasets/subscriber-file.ts'
import type { InsertManyOrder } from './insert-many.ts'

/** Makes its share of the documents, says so, and inserts them when told. */
const { uri, database, rows, seed, thread, threads } = workerData as InsertManyOrder
const batchSize = 1_000
const inFlight = 3

const file = new SubscriberFile({ rows, seed })
const batches: SubscriberDocument[][] = []
let batch: SubscriberDocument[] = []
const share = Math.ceil(rows / threads)
for (let row = thread * share; row < Math.min(rows, (thread + 1) * share); row += 1) {
  if (file.kindOf(row) !== 'good') continue
  batch.push(documentOf(row))
  if (batch.length < batchSize) continue
  batches.push(batch)
  batch = []
}
if (batch.length > 0) batches.push(batch)

const client = await MongoClient.connect(uri, { writeConcern: { w: 'majority' } })
parentPort!.once('message', () => {
  void insert().then((milliseconds) => parentPort!.postMessage(milliseconds))
})
parentPort!.postMessage([])

async function insert(): Promise<number[]> {
  const milliseconds: number[] = []
  const subscribers = client.db(database).collection<SubscriberDocument>('subscribers')
  let next = 0
  const lane = async () => {
    while (next < batches.length) {
      const documents = batches[next]!
      next += 1
      const startedAt = performance.now()
      await subscribers.insertMany(documents, { ordered: false })
      milliseconds.push(performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  await client.close()
  return milliseconds
}

function documentOf(row: number): SubscriberDocument {
  const cells = parseLine(file.line(row).slice(0, -1))
  const [email, firstName, lastName, address, birthday, plan, points, subscribeTime] = cells as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  const values = [firstName, lastName, address, toDate(parseDateTime(birthday, 'mdy')!), plan, Number(points)]
  return {
    _id: `1:${email.toLowerCase()}`,
    id: row + 1,
    mailing_list_id: 1,
    email,
    status: 'active',
    created_at: new Date(),
    subscribe_time: toInstant(parseDateTime(subscribeTime, 'mdy')!, 'UTC')!,
    custom_fields: Object.fromEntries(customFields.map((_, i) => [String(i + 1), values[i]!])),
  }
}

/** The generator encloses one cell at most, so that this is enough. */
function parseLine(line: string): string[] {
  const open = line.indexOf(',"')
  if (open === -1) return line.split(',')
  const close = line.indexOf('",', open + 2)
  return [
    ...line.slice(0, open).split(','),
    line.slice(open + 2, close).replaceAll('""', '"'),
    ...line.slice(close + 2).split(','),
  ]
}
