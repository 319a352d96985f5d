import type { ImportView } from '../../control-plane/cli/api-client.ts'
import type { ImportCounts } from '../../shared/contract/schemas/import.ts'
import type { SubscriberFile, WrittenFile } from '../datasets/subscriber-file.ts'
import { measuredProcess } from '../processes.ts'
import type { BenchContext, Contender, Measurement } from '../scenario.ts'
import { batchTimes } from './batch-times.ts'
import { wrongImport } from './check-import.ts'
import { createList, importEnd, install, secondsOf, type Installation } from './installation.ts'

export interface ImportWork extends WrittenFile {
  name: string
  /** Is on the list before the clock starts; its rows have no defects. */
  before?: WrittenFile
  /** Keys of the request that creates the import, its mapping excepted. */
  request?: Record<string, unknown>
  /** What the import has to count, where it isn't what one into an empty list does. */
  expected?: Partial<ImportCounts>
  /** The file whose values the subscribers have afterwards, where it isn't the one that is imported. */
  leaves?: SubscriberFile
  /** The file that says when they subscribed, likewise. */
  subscribeTimes?: SubscriberFile
  subscriberLimit?: number
  STAGING?: 'disk' | 'gridfs'
  URL_IMPORT_ALLOW?: string
  /** Before the clock starts; keys that it returns go into the request. */
  prepare?: (installation: Installation, listId: number) => Promise<Record<string, unknown> | undefined>
  /** What is wrong afterwards beside counts, logs and subscribers; null for nothing. */
  check?: (installation: Installation) => Promise<string | null>
}

/**
 * Imports the file through the upload directory, with an installation of its own each time. Its time is that from
 * `begins_at` to `finished_at`.
 */
export function rollcallImport(context: BenchContext, work: ImportWork): Contender {
  const { name } = work
  let round = 0
  return {
    name,
    async run() {
      round += 1
      const { STAGING = 'disk', URL_IMPORT_ALLOW = '' } = work
      const settings = { STAGING, URL_IMPORT_ALLOW }
      const installation = await install(context, `${name.replaceAll(/\W+/g, '-')}-${round}`, settings)
      try {
        return await importOnce(context, work, installation)
      } finally {
        await installation.remove()
      }
    },
  }
}

async function importOnce(
  context: BenchContext,
  work: ImportWork,
  installation: Installation,
): Promise<Measurement> {
  const { dataset, before, subscriberLimit } = work
  if (subscriberLimit !== undefined)
    await installation.client.put('/organizations/1', { organization: { subscriber_limit: subscriberLimit } })
  const list = await createList(installation.client, 'bench', dataset)
  const begin = (request: Record<string, unknown>) =>
    installation.client.post<{ id: number }>(`/mailing_lists/${list.listId}/subscriber_imports`, {
      subscriber_import: { column_mapping: dataset.columns, ...request },
    })
  if (before !== undefined) {
    await installation.place(before.file, 'before.csv')
    const { id } = await begin({ file_source: { type: 'upload_directory', filename: 'before.csv' } })
    const view = await importEnd(installation.client, id)
    if (view.stats.subscribers['added'] !== before.dataset.rows)
      throw new Error(`loading ${before.dataset.rows} subscribers ended ${view.state}: ${view.error_message}`)
    // Who is compared with it begins in a new process too.
    await installation.restart()
  }
  await installation.place(work.file, 'rows.csv')
  const prepared = await work.prepare?.(installation, list.listId)
  const { client, database, metrics } = installation

  const times = await batchTimes(metrics['engine']!)
  let view: ImportView | undefined
  const measured = await context.measure({
    processes: [
      measuredProcess('engine', metrics['engine']!),
      measuredProcess('control plane', metrics['control_plane']!),
    ],
    rows: dataset.rows,
    progress: () => view?.stats.records_imported ?? 0,
    do: async () => {
      const { id } = await begin({
        file_source: { type: 'upload_directory', filename: 'rows.csv' },
        ...work.request,
        ...prepared,
      })
      await importEnd(client, id, (seen) => (view = seen))
    },
  })
  const latency = await times.since()

  const wrong =
    (await wrongImport(installation, {
      view: view!,
      list,
      expected: work.expected ?? dataset.expectedCounts(),
      leaves: work.leaves ?? dataset,
      subscribeTimes: work.subscribeTimes,
    })) ??
    (await work.check?.(installation)) ??
    null
  if (wrong !== null) context.say(`${work.name}: ${wrong}`)
  const seconds = wrong === null ? await secondsOf(database, view!.id) : measured.seconds
  return { ...measured, seconds, latency, isRight: wrong === null }
}
