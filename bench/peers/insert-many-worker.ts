import { parentPort, workerData } from 'node:worker_threads'
import { BSON, MongoClient } from 'mongodb'
import { DocumentSequence } from 'mongodb/lib/cmap/commands.js'
import type { FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { fieldValues, flatDocument } from '../datasets/documents.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import type { InsertManyOrder } from './insert-many.ts'

/** Makes its part of the documents, says so, and inserts them when told. */
const { target, dataset, thread, threads, batch, batchesInFlight, mode } = workerData as InsertManyOrder

const file = new SubscriberFile(dataset)
const documentId = (row: number) => `1:${file.emailOf(row).toLowerCase()}`
const client = await MongoClient.connect(target.uri, { writeConcern: { w: 'majority' } })
const db = client.db(target.database)
const subscribers = db.collection<SubscriberDocument>('subscribers')

// A thread has a contiguous part, of the file or of the keys.
let rows = Array.from({ length: file.rows }, (_, row) => row)
if (mode !== 'insertMany in file order') {
  const ids = rows.map((row) => ({ row, id: documentId(row) }))
  // The order of the index is that of the bytes; these ids are ASCII.
  rows = ids.sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ row }) => row)
}
const part = Math.ceil(file.rows / threads)
rows = rows.slice(thread * part, (thread + 1) * part)
const batches: (() => Promise<unknown>)[] = []
for (let first = 0; first < rows.length; first += batch)
  batches.push(prepareInsert(rows.slice(first, first + batch).map(makeDocument)))

parentPort?.once('message', () => {
  void insert().then(() => parentPort?.postMessage('done'))
})
parentPort?.postMessage('ready')

/** Of ready-made BSON all that is left to be done is to send bytes. */
function prepareInsert(documents: SubscriberDocument[]): () => Promise<unknown> {
  if (mode !== 'ready-made BSON') return () => subscribers.insertMany(documents, { ordered: false })
  const sequence = new DocumentSequence('documents')
  sequence.push(null, Buffer.concat(documents.map((document) => BSON.serialize(document))))
  return () => db.command({ insert: 'subscribers', documents: sequence, ordered: false })
}

async function insert(): Promise<void> {
  const waiting = batches.reverse()
  const lane = async () => {
    // A batch that is sent is no longer referenced, so the collector has less to mark.
    for (let send = waiting.pop(); send !== undefined; send = waiting.pop()) await send()
  }
  await Promise.all(Array.from({ length: batchesInFlight }, lane))
  await client.close()
}

function makeDocument(row: number): SubscriberDocument {
  const values = fieldValues(file, row).map(([, value], i) => [String(i + 1), value])
  return {
    _id: documentId(row),
    id: row + 1,
    mailing_list_id: 1,
    email: file.emailOf(row),
    status: 'active',
    created_at: new Date(),
    subscribe_time: flatDocument(file, row)['subscribe_time'] as Date,
    custom_fields: Object.fromEntries(values) as Record<string, FieldValue>,
  }
}
