import type { Collection, Document } from 'mongodb'
import { sumDocuments, wrongDocuments } from '../check-import.ts'
import { flatDocument, flatSample, wrongSample, type Sample } from '../datasets/documents.ts'
import type { SubscriberFile } from '../datasets/subscriber-file.ts'
import { measure } from '../measure.ts'
import { inNewDatabase } from '../mongodb-server.ts'
import type { MeasuredProcess } from '../processes.ts'
import type { Bench, Contender } from '../scenario.ts'

/** Another importer: it writes into a new collection each time, whose content is then compared. No file has defects. */
export interface PeerWork extends Omit<Contender, 'run'> {
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
  do: () => Promise<unknown>
  end?: () => Promise<void>
}

/** Where the peer writes, into the collection `subscribers`. */
export interface PeerTarget {
  uri: string
  database: string
}

/** V8 flags of Rollcall's workers, which peers in Node get too. */
export const collectorFlags = ['--no-parallel-scavenge', '--heap-growing-percent=100']

export function peer(bench: Bench, work: PeerWork): Contender {
  const { name, version, note, dataset, leaves = dataset } = work
  const { pointsPath = 'points', flatten = (document) => document } = work
  const expected = leaves.expectedDocuments()
  const sample = flatSample(leaves)
  const run = () =>
    inNewDatabase(bench, async (db) => {
      const collection = db.collection('subscribers')
      await collection.createIndexes(work.indexes)
      if (work.before !== undefined) await load(collection, work.before)
      const prepared = await work.prepare({ uri: bench.mongodbUri, database: db.databaseName })
      await bench.settle?.()
      const { done: _, ...measured } = await measure(bench.server, {
        processes: [prepared.process],
        rows: dataset.rows,
        do: prepared.do,
      })
      await prepared.end?.()
      const found: Sample = new Map()
      for await (const { _id, ...document } of collection.find({ email: { $in: [...sample.keys()] } }))
        found.set(String(document['email']), flatten(document))
      const wrong =
        wrongDocuments(await sumDocuments(collection, {}, pointsPath), expected) ?? wrongSample(found, sample)
      if (wrong !== null) bench.say(`${name}: ${wrong}`)
      return { ...measured, is_right: wrong === null }
    })
  return { name, version, note, run }
}

async function load(collection: Collection, dataset: SubscriberFile): Promise<void> {
  for (let first = 0; first < dataset.rows; first += 2_000) {
    const length = Math.min(2_000, dataset.rows - first)
    const documents = Array.from({ length }, (_, i) => flatDocument(dataset, first + i))
    await collection.insertMany(documents, { ordered: false })
  }
}
