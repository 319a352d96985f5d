import { Worker } from 'node:worker_threads'
import { collectionDefinitions } from '../../shared/schemas/collections.ts'
import type { SubscriberFile } from '../datasets/subscriber-file.ts'
import { thisProcess } from '../processes.ts'
import type { BenchContext, Contender } from '../scenario.ts'
import { latencyOf } from '../statistics.ts'

/**
 * What the driver alone can do: the documents that the import ends up with, made beforehand and in file order, written
 * with insertMany into a collection with the same indexes, by two threads with three batches in flight each. No file is
 * read, no cell parsed, no duplicate found, nothing counted or logged.
 */
const threads = 2

export interface InsertManyOrder {
  uri: string
  database: string
  rows: number
  seed: number
  thread: number
  threads: number
}

export function insertManyPeer(context: BenchContext, dataset: SubscriberFile): Contender {
  let round = 0
  return {
    name: 'plain insertMany',
    settings: { threads, batch: 1_000, batches_in_flight: 3, write_concern: 'majority' },
    note: 'documents made beforehand; reads no file, finds no duplicates, counts and logs nothing',
    async run() {
      round += 1
      const name = `bench_peer_${round}`
      const { db, close } = await context.openDatabase(name)
      const { indexes } = collectionDefinitions.find((definition) => definition.name === 'subscribers')!
      await db
        .collection('subscribers')
        .createIndexes(indexes.map(({ keys, options }) => ({ key: keys as Record<string, 1>, ...options })))
      const workers = await Promise.all(
        Array.from({ length: threads }, (_, thread) =>
          startInserter({
            uri: context.mongodbUri,
            database: name,
            rows: context.rows,
            seed: context.seed,
            thread,
            threads,
          }),
        ),
      )
      const batches: number[] = []
      const measured = await context.measure({
        processes: [thisProcess('importer')],
        do: async () => {
          const times = await Promise.all(workers.map((worker) => worker.insert()))
          batches.push(...times.flat())
        },
      })
      await Promise.all(workers.map((worker) => worker.end()))
      const isRight =
        (await db.collection('subscribers').estimatedDocumentCount()) === dataset.expectedCounts().added
      await db.dropDatabase()
      await close()
      // Its rate is given in the file's rows, as the import's is.
      return { ...measured, latency: latencyOf('a batch of 1,000 rows', batches), isRight }
    },
  }
}

/** A thread whose documents are ready in memory when this resolves. */
async function startInserter(
  order: InsertManyOrder,
): Promise<{ insert: () => Promise<number[]>; end: () => Promise<void> }> {
  const worker = new Worker(new URL('./insert-many-worker.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: 8_192 },
  })
  /** In the end the milliseconds that each batch took. */
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
