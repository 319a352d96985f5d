import { once } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { collectionDefinitions } from '../../shared/contract/schemas/collection-definitions.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import type { SubscriberFile, SubscriberFileOptions } from '../datasets/subscriber-file.ts'
import { thisProcess } from '../processes.ts'
import { whole } from '../report/text.ts'
import type { Bench, Contender } from '../scenario.ts'
import { collectorFlags, peer, type PeerTarget, type PeerWork } from './peer.ts'

/** The last one is the most that this server takes: nothing is left of a client but sending. */
export const insertModes = ['insertMany in file order', 'insertMany by _id', 'ready-made BSON'] as const
export type InsertMode = (typeof insertModes)[number]

export interface InsertManyOrder {
  mode: InsertMode
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
 * The speed of driver and server: two threads write the documents that the import ends up with, made beforehand, into a
 * collection with the same indexes. No file is read, no duplicate found, nothing counted or logged.
 */
export function insertManyPeer(bench: Bench, dataset: SubscriberFile, mode: InsertMode): Contender {
  const indexes = collectionDefinitions.find(({ name }) => name === 'subscribers')?.indexes ?? []
  const { customFields } = dataset
  const pointsId = customFields.findIndex(({ name }) => name === 'points') + 1
  return peer(bench, {
    name: mode,
    note: `${threads} threads, batches of ${whole(batch)}, ${batchesInFlight} in flight each; documents made ${mode === insertModes[0] ? '' : 'and sorted by _id '}beforehand; reads no file, finds no duplicates, counts and logs nothing`,
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
      const order = { mode, target, dataset: dataset.options, threads, batch, batchesInFlight }
      const workers = await Promise.all(
        Array.from({ length: threads }, (_, thread) => startInserter({ ...order, thread })),
      )
      return {
        process: thisProcess('importer'),
        do: async () => {
          for (const worker of workers) worker.postMessage('insert')
          await Promise.all(workers.map((worker) => once(worker, 'message')))
        },
        end: async () => {
          await Promise.all(workers.map((worker) => worker.terminate()))
        },
      }
    },
  })
}

/** A thread that has its documents in memory. Told to insert, it replies when all are written. */
async function startInserter(order: InsertManyOrder): Promise<Worker> {
  const worker = new Worker(new URL('./insert-many-worker.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: 8_192 },
  })
  await once(worker, 'message')
  return worker
}
