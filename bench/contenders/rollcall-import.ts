import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiClient, importEnded, type ImportView } from '../../control-plane/cli/api-client.ts'
import { columns, customFields, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { measuredProcess } from '../processes.ts'
import { startRollcall } from '../rollcall.ts'
import type { BenchContext, Contender, Measurement } from '../scenario.ts'
import { placeUpload } from './place-upload.ts'
import { batchTimes } from './batch-times.ts'

/** Imports the file into an empty list through the upload directory, with an installation of its own each time. */
export function rollcallImport(
  context: BenchContext,
  work: {
    name: string
    dataset: SubscriberFile
    file: string
    subscriberLimit?: number
    STAGING?: 'disk' | 'gridfs'
  },
): Contender {
  const { name, dataset, file, subscriberLimit = null, STAGING = 'disk' } = work
  let round = 0
  return {
    name,
    async run() {
      round += 1
      const folder = path.join(context.folder, `${name.replaceAll(' ', '-')}-${round}`)
      const database = `bench_${path.basename(folder)}`
      await mkdir(folder, { recursive: true })
      const service = await startRollcall({
        folder,
        settings: { MONGODB_URI: context.mongodbUri, MONGODB_DATABASE: database, STAGING },
      })
      const connection = await context.openDatabase(database)
      try {
        await placeUpload(file, { STAGING, DATA_DIR: path.join(folder, 'data') }, connection)
        const client = new ApiClient(service.ready.http, service.key)
        if (subscriberLimit !== null)
          await client.put('/organizations/1', { organization: { subscriber_limit: subscriberLimit } })
        return await importOnce(context, dataset, client, service.ready.metrics)
      } finally {
        await service.stop()
        await connection.db.dropDatabase()
        await connection.close()
        await rm(folder, { recursive: true, force: true })
      }
    },
  }
}

async function importOnce(
  context: BenchContext,
  dataset: SubscriberFile,
  client: ApiClient,
  metrics: Record<string, string>,
): Promise<Measurement> {
  const list = await client.post<{ id: number }>('/mailing_lists', { mailing_list: { name: 'bench' } })
  for (const field of customFields)
    await client.post(`/mailing_lists/${list.id}/custom_fields`, { custom_field: field })
  const times = await batchTimes(metrics['engine']!)
  let view: ImportView | undefined
  const measured = await context.measure({
    processes: [
      measuredProcess('engine', metrics['engine']!),
      measuredProcess('control plane', metrics['control_plane']!),
    ],
    progress: () => view?.stats.records_imported ?? 0,
    do: async () => {
      const startedAt = performance.now()
      view = await client.post<ImportView>(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: {
          column_mapping: columns,
          file_source: { type: 'upload_directory', filename: 'rows.csv' },
        },
      })
      while (!importEnded(view)) {
        // Often enough that a short import doesn't seem longer, seldom enough that a long one doesn't notice.
        await sleep(Math.min(250, Math.max(20, (performance.now() - startedAt) / 50)))
        view = await client.get<ImportView>(`/subscriber_imports/${view.id}`)
      }
    },
  })
  const latency = await times.since()
  await client.close()
  const expected = dataset.expectedCounts()
  const isRight =
    view?.state === 'finished' &&
    Object.entries(expected).every(([kind, count]) => view!.stats.subscribers[kind] === count)
  return { ...measured, latency, isRight }
}
