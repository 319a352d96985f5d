import { parentPort, workerData } from 'node:worker_threads'
import { MongoClient } from 'mongodb'
import type { FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { parseDateTime, toDate, toInstant } from '../../shared/values/date-time.ts'
import { SubscriberFile, type CustomField } from '../datasets/subscriber-file.ts'
import { cellsOf } from './flat-document.ts'
import type { InsertManyOrder } from './insert-many.ts'

/** Makes its share of the documents, says so, and inserts them when told. */
const { target, dataset, thread, threads } = workerData as InsertManyOrder
/** 1,000 and 3,500 were a tenth slower. */
const batchSize = 2_000
const inFlight = 3

const file = new SubscriberFile(dataset)
const batches: SubscriberDocument[][] = []
let batch: SubscriberDocument[] = []
const share = Math.ceil(file.rows / threads)
for (let row = thread * share; row < Math.min(file.rows, (thread + 1) * share); row += 1) {
  if (file.kindOf(row) !== 'good') continue
  batch.push(documentOf(row))
  if (batch.length < batchSize) continue
  batches.push(batch)
  batch = []
}
if (batch.length > 0) batches.push(batch)

const client = await MongoClient.connect(target.uri, { writeConcern: { w: 'majority' } })
parentPort!.once('message', () => {
  void insert().then((milliseconds) => parentPort!.postMessage(milliseconds))
})
parentPort!.postMessage([])

async function insert(): Promise<number[]> {
  const milliseconds: number[] = []
  const subscribers = client.db(target.database).collection<SubscriberDocument>(target.collection)
  let next = 0
  const lane = async () => {
    while (next < batches.length) {
      const documents = batches[next]!
      // What is sent is nobody's any more, and needn't be kept by the collector.
      batches[next] = []
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
  const cells = cellsOf(file.line(row).slice(0, -1))
  const cell = (column: string) => cells[file.columns.indexOf(column)]!
  const email = cell('email')
  return {
    _id: `1:${email.toLowerCase()}`,
    id: row + 1,
    mailing_list_id: 1,
    email,
    status: 'active',
    created_at: new Date(),
    subscribe_time: toInstant(parseDateTime(cell('subscribe_time'), 'mdy')!, 'UTC')!,
    custom_fields: Object.fromEntries(
      file.customFields.map((field, i) => [String(i + 1), valueOf(field, cell(field.name))]),
    ),
  }
}

function valueOf({ field_type }: CustomField, cell: string): FieldValue {
  if (field_type === 'number') return Number(cell)
  if (field_type === 'boolean') return cell === 'true'
  return field_type === 'date' ? toDate(parseDateTime(cell, 'mdy')!) : cell
}
