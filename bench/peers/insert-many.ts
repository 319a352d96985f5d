import { once } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { collectionDefinitions } from '../../shared/contract/schemas/collections.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { customFields, type SubscriberFile, type SubscriberFileOptions } from '../datasets/subscriber-file.ts'
import { thisProcess } from '../processes.ts'
import type { Bench, Contender } from '../scenario.ts'
import { collectorFlags, peer, type PeerTarget, type PeerWork } from './peer.ts'

export interface InsertManyOrder {
  target: PeerTarget
  dataset: SubscriberFileOptions
  thread: number
  threads: number
  batch: number
  batchesInFlight: number
}

const threads = 2
/** 1,000 and 3,500 were a tenth slower. */
const batch = 2_000
const batchesInFlight = 3

/**
 * The driver's own speed: two threads write the documents that the import ends up with, made beforehand and in file
 * order, into a collection with the same indexes. No file is read, no duplicate found, nothing counted or logged.
 */
export function insertManyPeer(bench: Bench, dataset: SubscriberFile): Contender {
  const indexes = collectionDefinitions.find(({ name }) => name === 'subscribers')?.indexes ?? []
  const pointsId = customFields.findIndex(({ name }) => name === 'points') + 1
  return peer(bench, {
    name: 'plain insertMany',
    settings: { threads, batch, batches_in_flight: batchesInFlight, write_concern: 'majority' },
    note: 'documents made beforehand; reads no file, finds no duplicates, counts and logs nothing',
    dataset,
    indexes: indexes.map(({ keys, options }) => ({ key: keys, ...options }) as PeerWork['indexes'][number]),
    pointsPath: `custom_fields.${pointsId}`,
    flatten: (document) => {
      const { email, subscribe_time, custom_fields } = document as SubscriberDocument
      const values = customFields.map(({ name, field_type }, i) => {
        const value = custom_fields[String(i + 1)]
        return [name, field_type === 'date' ? new Date(String(value)) : value] as const
      })
      return { email, subscribe_time, ...Object.fromEntries(values) }
    },
    async prepare(target) {
      for (const flag of collectorFlags) setFlagsFromString(flag)
      const order = { target, dataset: dataset.options, threads, batch, batchesInFlight }
      const workers = await Promise.all(
        Array.from({ length: threads }, (_, thread) => startInserter({ ...order, thread })),
      )
      return {
        process: thisProcess('importer'),
        do: async () => {
          for (const worker of workers) worker.postMessage('insert')
          return (await Promise.all(workers.map(nextMessage))).flat()
        },
        end: async () => {
          await Promise.all(workers.map((worker) => worker.terminate()))
        },
      }
    },
  })
}

/** A thread that has its documents in memory. Told to insert, it replies with the milliseconds of its batches. */
async function startInserter(order: InsertManyOrder): Promise<Worker> {
  const worker = new Worker(new URL('./insert-many-worker.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: 8_192 },
  })
  await nextMessage(worker)
  return worker
}

async function nextMessage(worker: Worker): Promise<number[]> {
  const [milliseconds] = (await once(worker, 'message')) as number[][]
  return milliseconds ?? []
}
