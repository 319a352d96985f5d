import { parentPort, workerData } from 'node:worker_threads'
import { MongoClient } from 'mongodb'
import type { FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { fieldValues, flatDocument } from '../datasets/documents.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import type { InsertManyOrder } from './insert-many.ts'

/** Makes its part of the documents, says so, and inserts them when told. */
const { target, dataset, thread, threads, batch, batchesInFlight } = workerData as InsertManyOrder

const file = new SubscriberFile(dataset)
const part = Math.ceil(file.rows / threads)
const end = Math.min(file.rows, (thread + 1) * part)
const batches: SubscriberDocument[][] = []
for (let first = thread * part; first < end; first += batch)
  batches.push(Array.from({ length: Math.min(batch, end - first) }, (_, i) => makeDocument(first + i)))

const client = await MongoClient.connect(target.uri, { writeConcern: { w: 'majority' } })
parentPort?.once('message', () => {
  void insert().then((milliseconds) => parentPort?.postMessage(milliseconds))
})
parentPort?.postMessage([])

async function insert(): Promise<number[]> {
  const milliseconds: number[] = []
  const subscribers = client.db(target.database).collection<SubscriberDocument>('subscribers')
  const waiting = batches.reverse()
  const lane = async () => {
    // A batch that is sent is no longer referenced, so the collector has less to mark.
    for (let sent = waiting.pop(); sent !== undefined; sent = waiting.pop()) {
      const startedAt = performance.now()
      await subscribers.insertMany(sent, { ordered: false })
      milliseconds.push(performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: batchesInFlight }, lane))
  await client.close()
  return milliseconds
}

function makeDocument(row: number): SubscriberDocument {
  const email = file.emailOf(row)
  const values = fieldValues(file, row).map(([, value], i) => [String(i + 1), value])
  return {
    _id: `1:${email.toLowerCase()}`,
    id: row + 1,
    mailing_list_id: 1,
    email,
    status: 'active',
    created_at: new Date(),
    subscribe_time: flatDocument(file, row)['subscribe_time'] as Date,
    custom_fields: Object.fromEntries(values) as Record<string, FieldValue>,
  }
}
