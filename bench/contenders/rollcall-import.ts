import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiClient, importEnded, type ImportView } from '../../control-plane/cli/api-client.ts'
import { columns, customFields, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { startRollcall } from '../rollcall.ts'
import type { BenchContext, Contender, Measurement } from '../scenario.ts'
import { placeUpload } from './place-upload.ts'
import { watchProcess } from '../watch-process.ts'

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
        return await importOnce(context, dataset, client, service.ready.metrics['engine']!)
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
  metricsUrl: string,
): Promise<Measurement> {
  const list = await client.post<{ id: number }>('/mailing_lists', { mailing_list: { name: 'bench' } })
  for (const field of customFields)
    await client.post(`/mailing_lists/${list.id}/custom_fields`, { custom_field: field })
  const engine = await watchProcess(metricsUrl)
  const serverBefore = await context.serverCpuSeconds()
  const startedAt = performance.now()
  const { id } = await client.post<{ id: number }>(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: columns,
      file_source: { type: 'upload_directory', filename: 'rows.csv' },
    },
  })
  let view: ImportView
  for (;;) {
    view = await client.get<ImportView>(`/subscriber_imports/${id}`)
    if (importEnded(view)) break
    await sleep(200)
  }
  const seconds = (performance.now() - startedAt) / 1000
  const { cpuSeconds, peakMemoryMB } = await engine.stop()
  const serverSeconds = (await context.serverCpuSeconds()) - serverBefore
  await client.close()
  const expected = dataset.expectedCounts()
  const isRight =
    view.state === 'finished' &&
    Object.entries(expected).every(([kind, count]) => view.stats.subscribers[kind] === count)
  return {
    seconds,
    rows: context.rows,
    clientMicroseconds: (cpuSeconds / context.rows) * 1e6,
    serverMicroseconds: (serverSeconds / context.rows) * 1e6,
    peakMemoryMB,
    isRight,
  }
}
