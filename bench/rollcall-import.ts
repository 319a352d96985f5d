import { createReadStream } from 'node:fs'
import path from 'node:path'
import type { ImportCounts } from '../shared/contract/schemas/import.ts'
import { wrongImport } from './check-import.ts'
import type { SubscriberFile, WrittenFile } from './datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport, uploaded, type List } from './imports.ts'
import { removeFolder } from './interrupt.ts'
import { measure } from './measure.ts'
import { inNewDatabase } from './mongodb-server.ts'
import type { Bench, Contender, Measurement } from './scenario.ts'
import { withService, type Service } from './service.ts'

export interface ImportWork extends WrittenFile {
  /** On the list before the clock starts; without defects. */
  before?: WrittenFile
  overwrite?: boolean
  /** By default what an import into an empty list counts. */
  expected?: Partial<ImportCounts>
  /** The file whose values the subscribers have afterwards, by default the imported one. */
  leaves?: SubscriberFile
}

/**
 * Imports the file from the upload directory, in a new database each time. Its time is stored: `begins_at` to
 * `finished_at`. Where the benchmark compares with another tree, that one does the same.
 */
export function rollcallImports(
  bench: Bench,
  work: ImportWork,
  { name = 'rollcall', STAGING = 'disk' }: { name?: string; STAGING?: string } = {},
): Contender[] {
  const own = rollcallImport(bench, work, { name, STAGING })
  const { tree } = bench
  return tree ? [own, rollcallImport(bench, work, { name: `${name}, other tree`, STAGING, tree })] : [own]
}

function rollcallImport(
  bench: Bench,
  work: ImportWork,
  { name, STAGING, tree }: { name: string; STAGING: string; tree?: string },
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
          const list =
            loaded ?? (await createList(service.client, 'bench', { fields: work.dataset.customFields }))
          return importOnce(bench, name, work, service, list)
        })
      } finally {
        await removeFolder(folder)
      }
    })
  return { name, isRollcall: true, run }
}

async function load({ client, place }: Service, { dataset, file }: WrittenFile): Promise<List> {
  const list = await createList(client, 'bench', { fields: dataset.customFields })
  await place(createReadStream(file), 'before.csv')
  const id = await startImport(client, list.listId, { file_source: uploaded('before.csv') })
  const view = await pollImport(client, id)
  if (view.stats.subscribers['added'] !== dataset.rows)
    throw new Error(`loading ${dataset.rows} subscribers ended ${view.state}: ${view.error_message}`)
  return list
}

async function importOnce(
  { server, settle, say }: Bench,
  name: string,
  work: ImportWork,
  service: Service,
  list: List,
): Promise<Measurement> {
  const { file, dataset, overwrite = false } = work
  const { client, database, processes } = service
  await service.place(createReadStream(file), 'rows.csv')
  await settle?.()
  let imported = 0
  const { done: view, ...measured } = await measure(server, {
    processes,
    rows: dataset.rows,
    progress: () => imported,
    do: async () => {
      // The switch of the status is that of the subscribe time too: all columns are written, as peers do.
      const request = {
        file_source: uploaded('rows.csv'),
        column_mapping: dataset.columns,
        overwrite,
        overwrite_what: { status: overwrite },
      }
      const id = await startImport(client, list.listId, request)
      return pollImport(client, id, ({ stats }) => {
        imported = stats.records_imported
        return false
      })
    },
  })
  const { expected = dataset.expectedCounts(), leaves = dataset } = work
  const wrong = await wrongImport(service, { view, list, expected, leaves })
  if (wrong !== null) say(`${name}: ${wrong}`)
  const seconds = wrong === null ? await importSeconds(database, view.id) : measured.seconds
  return { ...measured, seconds, is_right: wrong === null }
}
