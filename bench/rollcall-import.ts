import { createReadStream } from 'node:fs'
import path from 'node:path'
import type { ImportCounts } from '../shared/contract/schemas/import.ts'
import { batchRecords } from '../shared/csv/chunk-records.ts'
import { wrongImport } from './check-import.ts'
import type { SubscriberFile, WrittenFile } from './datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport, uploaded, type List } from './imports.ts'
import { removeFolder } from './interrupt.ts'
import { measure } from './measure.ts'
import { inNewDatabase } from './mongodb-server.ts'
import { whole } from './report/text.ts'
import type { Bench, Contender, Latency, Measurement } from './scenario.ts'
import { withService, type Service } from './service.ts'

export interface ImportWork extends WrittenFile {
  /** On the list before the clock starts; without defects. */
  before?: WrittenFile
  overwrite?: boolean
  /** By default what an import into an empty list counts. */
  expected?: Partial<ImportCounts>
  /** The file whose values the subscribers have afterwards, by default the imported one. */
  leaves?: SubscriberFile
  /** The file that has their subscribe times, by default the same. */
  subscribeTimes?: SubscriberFile
}

/** Imports the file from the upload directory, in a new database each time. Its time is stored: `begins_at` to `finished_at`. */
export function rollcallImport(
  bench: Bench,
  work: ImportWork,
  { name = 'rollcall', STAGING = 'disk', tree }: { name?: string; STAGING?: string; tree?: string } = {},
): Contender {
  const { before } = work
  const run = () =>
    inNewDatabase(bench, async ({ databaseName: database }) => {
      const folder = path.join(bench.folder, database)
      const mongodb = { uri: bench.mongodbUri, database }
      const options = { folder, mongodb, settings: { STAGING }, ...(tree === undefined ? {} : { tree }) }
      try {
        // The import begins in new processes: loading would compile their code, and the peers begin so too.
        const loaded = before && (await withService(options, (service) => load(service, before)))
        return await withService(options, async (service) => {
          const list = loaded ?? (await createList(service.client, 'bench'))
          return importOnce(bench, name, work, service, list)
        })
      } finally {
        await removeFolder(folder)
      }
    })
  return { name, run }
}

async function load({ client, place }: Service, { dataset, file }: WrittenFile): Promise<List> {
  const list = await createList(client, 'bench')
  await place(createReadStream(file), 'before.csv')
  const id = await startImport(client, list.listId, { file_source: uploaded('before.csv') })
  const view = await pollImport(client, id)
  if (view.stats.subscribers['added'] !== dataset.rows)
    throw new Error(`loading ${dataset.rows} subscribers ended ${view.state}: ${view.error_message}`)
  return list
}

async function importOnce(
  { server, say }: Bench,
  name: string,
  work: ImportWork,
  service: Service,
  list: List,
): Promise<Measurement> {
  const { file, dataset, overwrite = false } = work
  const { client, database, processes } = service
  await service.place(createReadStream(file), 'rows.csv')
  const before = await readBuckets(service)
  let imported = 0
  const { done: view, ...measured } = await measure(server, {
    processes,
    rows: dataset.rows,
    progress: () => imported,
    do: async () => {
      const request = { file_source: uploaded('rows.csv'), overwrite }
      const id = await startImport(client, list.listId, request)
      return pollImport(client, id, ({ stats }) => {
        imported = stats.records_imported
        return false
      })
    },
  })
  const latency = batchLatency(before, await readBuckets(service))
  const { expected = dataset.expectedCounts(), leaves = dataset, subscribeTimes } = work
  const wrong = await wrongImport(service, { view, list, expected, leaves, subscribeTimes })
  if (wrong !== null) say(`${name}: ${wrong}`)
  const seconds = wrong === null ? await importSeconds(database, view.id) : measured.seconds
  return { ...measured, seconds, latency, is_right: wrong === null }
}

type Buckets = { bound: number; count: number }[]

/** The engine's histogram of batches: bounds in seconds, and how many batches didn't exceed them. */
async function readBuckets({ metrics }: Service): Promise<Buckets> {
  const text = await (await fetch(String(metrics['engine']))).text()
  const buckets = /^rollcall_bulk_write_duration_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\d+)$/gm
  return [...text.matchAll(buckets)].map(([, bound, count]) => ({
    bound: bound === '+Inf' ? Infinity : Number(bound),
    count: Number(count),
  }))
}

function batchLatency(before: Buckets, after: Buckets): Latency {
  const since = after.map(({ bound, count }, i) => ({ bound, count: count - (before[i]?.count ?? 0) }))
  const total = since.at(-1)?.count ?? 0
  return {
    of: `a batch of ${whole(batchRecords)} rows`,
    count: total,
    quantiles: since
      .filter(({ bound, count }, i) => Number.isFinite(bound) && count > (since[i - 1]?.count ?? 0))
      .map(({ bound, count }) => [count / total, bound * 1_000]),
  }
}
