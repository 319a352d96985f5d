import { setFlagsFromString } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { collectionDefinitions } from '../../shared/contract/schemas/collections.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import type { SubscriberFile, SubscriberFileOptions } from '../datasets/subscriber-file.ts'
import { thisProcess } from '../processes.ts'
import type { BenchContext, Contender } from '../scenario.ts'
import { flatSample } from './flat-document.ts'
import { collectorFlags, peer, type PeerTarget, type PeerWork } from './peer.ts'

/**
 * What the driver alone can do: the documents that the import ends up with, made beforehand and in file order, written
 * with insertMany into a collection with the same indexes, by two threads with three batches in flight each. No file is
 * read, no cell parsed, no duplicate found, nothing counted or logged.
 */
const threads = 2

export interface InsertManyOrder {
  target: PeerTarget
  dataset: SubscriberFileOptions
  thread: number
  threads: number
}

export function insertManyPeer(context: BenchContext, dataset: SubscriberFile): Contender {
  const { indexes } = collectionDefinitions.find((definition) => definition.name === 'subscribers')!
  const pointsId = dataset.customFields.findIndex(({ name }) => name === 'points') + 1
  return peer(context, {
    name: 'plain insertMany',
    dataset,
    indexes: indexes.map(({ keys, options }) => ({
      key: keys as Record<string, 1>,
      ...(options as Omit<PeerWork['indexes'][number], 'key'>),
    })),
    expected: dataset.expectedDocuments(),
    points: { path: `custom_fields.${pointsId}` },
    sample: flatSample(dataset, (row) => (dataset.kindOf(row) === 'good' ? row : null)),
    shown: (document) => flattened(document as SubscriberDocument, dataset),
    about: {
      settings: { threads, batch: 2_000, batches_in_flight: 3, write_concern: 'majority' },
      note: 'documents made beforehand; reads no file, finds no duplicates, counts and logs nothing',
    },
    async prepare(target) {
      for (const flag of collectorFlags) setFlagsFromString(flag)
      const workers = await Promise.all(
        Array.from({ length: threads }, (_, thread) =>
          startInserter({ target, dataset: dataset.options, thread, threads }),
        ),
      )
      const batches: number[] = []
      return {
        process: thisProcess('importer'),
        do: async () => {
          const times = await Promise.all(workers.map((worker) => worker.insert()))
          batches.push(...times.flat())
        },
        batchTimes: () => batches,
        end: async () => {
          await Promise.all(workers.map((worker) => worker.end()))
        },
      }
    },
  })
}

function flattened(document: SubscriberDocument, { customFields }: SubscriberFile) {
  const { email, subscribe_time, custom_fields } = document
  const values = customFields.map(({ name, field_type }, i) => {
    const value = custom_fields[String(i + 1)]
    return [name, field_type === 'date' ? new Date(String(value)) : value] as const
  })
  return { email, subscribe_time, ...Object.fromEntries(values) }
}

/** A thread whose documents are ready in memory when this resolves; each insert says how long its batches took. */
async function startInserter(
  order: InsertManyOrder,
): Promise<{ insert: () => Promise<number[]>; end: () => Promise<void> }> {
  const worker = new Worker(new URL('./insert-many-worker.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: 8_192 },
  })
  const next = () =>
    new Promise<number[]>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
  await next()
  return {
    insert: () => {
      const done = next()
      worker.postMessage('insert')
      return done
    },
    end: async () => {
      await worker.terminate()
    },
  }
}
