import type { Collection, Document } from 'mongodb'
import { wrongDocuments } from '../check-import.ts'
import { flatDocument, flatSample, wrongSample, type Sample } from '../datasets/documents.ts'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import { measure } from '../measure.ts'
import type { MeasuredProcess } from '../processes.ts'
import { whole } from '../report/text.ts'
import type { Bench, Contender } from '../scenario.ts'
import { summarizeLatency } from '../statistics.ts'

/** Another importer: it writes into a new collection each time, whose content is then compared. No file has defects. */
export interface PeerWork extends Pick<Contender, 'name' | 'version' | 'note'> {
  settings: { batch: number; [name: string]: string | number | boolean }
  dataset: SubscriberFile
  /** Rows that are loaded before the measurement. */
  before?: SubscriberFile | undefined
  indexes: { key: Record<string, 1>; unique?: boolean; partialFilterExpression?: Document }[]
  /** The file whose values the collection has afterwards; by default `dataset`. */
  leaves?: SubscriberFile | undefined
  /** Where documents have their points; by default in a field of that name. */
  pointsPath?: string
  /** A document with a field a column, where it is stored otherwise. */
  flatten?: (document: Document) => Record<string, unknown>
  prepare(target: PeerTarget): Promise<PreparedPeer>
}

export interface PreparedPeer {
  process: MeasuredProcess
  /** Does the work; resolves to the milliseconds of each batch, where they are known. */
  do: () => Promise<number[]>
  end?: () => Promise<void>
}

export interface PeerTarget {
  uri: string
  database: string
  collection: string
}

/** V8 flags of Rollcall's workers, which peers in Node get too. */
export const collectorFlags = ['--no-parallel-scavenge', '--heap-growing-percent=100']

export function peer(bench: Bench, work: PeerWork): Contender {
  const { name, version, settings, note, dataset, leaves = dataset } = work
  const expected = leaves.expectedDocuments()
  const sample = flatSample(leaves)
  let round = 0
  return {
    name,
    ...(version === undefined ? {} : { version }),
    settings,
    ...(note === undefined ? {} : { note }),
    async run() {
      round += 1
      const database = `bench_${name.replaceAll(/\W+/g, '-')}-${round}`
      const { db, close } = await bench.openDatabase(database)
      try {
        const collection = db.collection('subscribers')
        await collection.createIndexes(work.indexes)
        if (work.before !== undefined) await load(collection, work.before)
        const target = { uri: bench.mongodbUri, database, collection: 'subscribers' }
        const prepared = await work.prepare(target)
        const { done: times, ...measured } = await measure(bench.server, {
          processes: [prepared.process],
          rows: dataset.rows,
          do: prepared.do,
        })
        await prepared.end?.()
        const wrong =
          wrongDocuments(await countDocuments(collection, work), expected) ??
          wrongSample(await readSample(collection, sample, work), sample)
        if (wrong !== null) bench.say(`${name}: ${wrong}`)
        const of = `a batch of ${whole(settings.batch)} rows`
        const latency = times.length === 0 ? {} : { latency: summarizeLatency(of, times) }
        return { ...measured, ...latency, isRight: wrong === null }
      } finally {
        await db.dropDatabase()
        await close()
      }
    },
  }
}

const loadBatch = 2_000
const loadLanes = 3

async function load(collection: Collection, dataset: SubscriberFile): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < dataset.rows) {
      const first = next
      next += loadBatch
      const count = Math.min(loadBatch, dataset.rows - first)
      const documents = Array.from({ length: count }, (_, i) => flatDocument(dataset, first + i))
      await collection.insertMany(documents, { ordered: false })
    }
  }
  await Promise.all(Array.from({ length: loadLanes }, lane))
}

async function countDocuments(
  collection: Collection,
  { pointsPath = 'points' }: PeerWork,
): Promise<Documents> {
  const group = { _id: null, count: { $sum: 1 }, points: { $sum: `$${pointsPath}` } }
  const [sums] = await collection.aggregate<Documents>([{ $group: group }]).toArray()
  return { count: sums?.count ?? 0, points: sums?.points ?? 0 }
}

async function readSample(
  collection: Collection,
  sample: Sample,
  { flatten = (document) => document }: PeerWork,
): Promise<Sample> {
  const found: Sample = new Map()
  for await (const { _id, ...document } of collection.find({ email: { $in: [...sample.keys()] } }))
    found.set(String(document['email']), flatten(document))
  return found
}
