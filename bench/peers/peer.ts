import type { Collection, Document } from 'mongodb'
import { wrongDocuments } from '../contenders/check-import.ts'
import { wrongSample, type Sample } from '../datasets/sample.ts'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import type { ProcessOfContender } from '../processes.ts'
import type { BenchContext, Contender } from '../scenario.ts'
import { latencyOf } from '../statistics.ts'
import { flatDocument } from './flat-document.ts'

/** What other importers have in common: a collection of their own each time, and what it must hold in the end. */
export interface PeerWork {
  name: string
  dataset: SubscriberFile
  /** Is in the collection before the clock starts. */
  before?: SubscriberFile
  /** Of the collection, before anything is written. */
  indexes: { key: Record<string, 1>; unique?: boolean; partialFilterExpression?: Document }[]
  expected: Documents
  /** Where the documents hold `points`, and which of them count for the sum; by default all. */
  points?: { path?: string; match?: Document }
  /** Some documents whole, by their email. */
  sample: Sample
  /** A document as the sample shows it, where it isn't stored with a field a column. */
  shown?: (document: Document) => Record<string, unknown>
  /** What it is, what it was told, and what it does less. */
  about: Pick<Contender, 'version' | 'settings' | 'note'>
  /** Gets ready; what it returns does the work. */
  prepare(target: PeerTarget): Promise<PreparedPeer>
}

export interface PreparedPeer {
  process: ProcessOfContender
  do: () => Promise<void>
  /** Of a batch, in milliseconds, once the work is done. */
  batchTimes?: () => number[]
  end?: () => Promise<void>
}

export interface PeerTarget {
  uri: string
  database: string
  collection: string
}

const collectionName = 'subscribers'

/** Of Rollcall's workers: a peer in Node isn't to be slower for want of them. */
export const collectorFlags = ['--no-parallel-scavenge', '--heap-growing-percent=100']

export function peer(context: BenchContext, work: PeerWork): Contender {
  const { name, dataset } = work
  let round = 0
  return {
    name,
    ...work.about,
    async run() {
      round += 1
      const database = `bench_${name.replaceAll(/\W+/g, '-')}-${round}`
      const { db, close } = await context.openDatabase(database)
      try {
        const collection = db.collection(collectionName)
        await collection.createIndexes(work.indexes)
        if (work.before !== undefined) await load(collection, work.before)
        const peer = await work.prepare({ uri: context.mongodbUri, database, collection: collectionName })
        const { rows } = dataset
        // Its rate is given in the file's rows, as the import's is.
        const measured = await context.measure({ processes: [peer.process], rows, do: peer.do })
        await peer.end?.()
        const wrong =
          wrongDocuments(await documentsOf(collection, work), work.expected) ??
          wrongSample(await sampleOf(collection, work), work.sample)
        if (wrong !== null) context.say(`${name}: ${wrong}`)
        const times = peer.batchTimes?.()
        const batch = Number(work.about.settings?.['batch']).toLocaleString('en')
        const latency = times && { latency: latencyOf(`a batch of ${batch} rows`, times) }
        return { ...measured, ...latency, isRight: wrong === null }
      } finally {
        await db.dropDatabase()
        await close()
      }
    },
  }
}

const loadedAtOnce = 2_000
const loadsInFlight = 3

async function load(collection: Collection, dataset: SubscriberFile): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < dataset.rows) {
      const first = next
      next += loadedAtOnce
      const count = Math.min(loadedAtOnce, dataset.rows - first)
      const documents = Array.from({ length: count }, (_, i) => flatDocument(dataset, first + i))
      await collection.insertMany(documents, { ordered: false })
    }
  }
  await Promise.all(Array.from({ length: loadsInFlight }, lane))
}

async function documentsOf(collection: Collection, { points = {} }: PeerWork): Promise<Documents> {
  const { path = 'points', match = {} } = points
  const [sums] = await collection
    .aggregate<{ points: number }>([
      { $match: match },
      { $group: { _id: null, points: { $sum: `$${path}` } } },
    ])
    .toArray()
  return { count: await collection.countDocuments(), points: sums?.points ?? 0 }
}

async function sampleOf(collection: Collection, { sample, shown = (document) => document }: PeerWork) {
  const found: Sample = new Map()
  const wanted = { email: { $in: [...sample.keys()] } }
  for await (const { _id, ...document } of collection.find(wanted))
    found.set(document['email'] as string, shown(document))
  return found
}
