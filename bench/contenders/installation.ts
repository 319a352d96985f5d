import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiClient, importEnded, type ImportView } from '../../control-plane/cli/api-client.ts'
import type { Database } from '../../shared/runtime/database.ts'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import { startRollcall } from '../rollcall.ts'
import type { BenchContext } from '../scenario.ts'
import { placeUpload } from './place-upload.ts'

/** The whole service on the benchmark's MongoDB server, with a database and a data folder of its own. */
export interface Installation {
  /** Of the processes that run now. */
  readonly client: ApiClient
  readonly database: Database
  /** URLs of the processes' metrics, by their names. */
  readonly metrics: Record<string, string>
  /** Into the upload directory of the first organization. */
  place(file: string, name: string): Promise<void>
  /** All of its processes anew, with what is stored: whatever they did before, their code isn't compiled by it. */
  restart(): Promise<void>
  /** Stops it and removes what it stored. */
  remove(): Promise<void>
}

const apiKey = 'bench_key_0123456789'

export async function install(
  context: BenchContext,
  name: string,
  settings: { STAGING?: 'disk' | 'gridfs'; URL_IMPORT_ALLOW?: string } = {},
): Promise<Installation> {
  const folder = path.join(context.folder, name)
  const databaseName = `bench_${name}`
  await mkdir(folder, { recursive: true })
  const stored = { MONGODB_URI: context.mongodbUri, MONGODB_DATABASE: databaseName }
  const start = async () => {
    const service = await startRollcall({
      folder,
      settings: { BOOTSTRAP_API_KEY: apiKey, ...stored, ...settings },
    })
    return { service, client: new ApiClient(service.ready.http, apiKey) }
  }
  const stop = async ({ service, client }: typeof running) => {
    await client.close()
    await service.stop()
  }
  let running = await start()
  const database = await context.openDatabase(databaseName)
  return {
    get client() {
      return running.client
    },
    database,
    get metrics() {
      return running.service.ready.metrics
    },
    place: (file, name) =>
      placeUpload(
        file,
        { STAGING: settings.STAGING ?? 'disk', DATA_DIR: path.join(folder, 'data') },
        database,
        name,
      ),
    restart: async () => {
      await stop(running)
      running = await start()
    },
    remove: async () => {
      await stop(running)
      await database.db.dropDatabase()
      await database.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export interface List {
  listId: number
  /** Id of the custom field `points`. */
  pointsId: number
  /** Ids of all custom fields, by their names. */
  fieldIds: Map<string, number>
}

/** A list with the custom fields that the file's columns need. */
export async function createList(
  client: ApiClient,
  name: string,
  { customFields }: Pick<SubscriberFile, 'customFields'>,
  organizationId = 1,
): Promise<List> {
  const { id: listId } = await client.post<{ id: number }>('/mailing_lists', {
    mailing_list: { name, organization_id: organizationId },
  })
  const fieldIds = new Map<string, number>()
  for (const field of customFields) {
    const { id } = await client.post<{ id: number }>(`/mailing_lists/${listId}/custom_fields`, {
      custom_field: field,
    })
    fieldIds.set(field.name, id)
  }
  return { listId, pointsId: fieldIds.get('points')!, fieldIds }
}

/** Its last view; the others are told of on the way. */
export async function importEnd(
  client: ApiClient,
  id: number,
  onView: (view: ImportView) => void = () => undefined,
): Promise<ImportView> {
  const startedAt = performance.now()
  for (;;) {
    const view = await client.get<ImportView>(`/subscriber_imports/${id}`)
    onView(view)
    if (importEnded(view)) return view
    // Often enough that a short import doesn't seem longer, seldom enough that a long one doesn't notice: with 50 looks
    // in its first second, and twice as many until its tenth, they took 4 % of its CPU time.
    await sleep(Math.min(250, Math.max(20, (performance.now() - startedAt) / 10)))
  }
}

/** From `begins_at` to `finished_at`, as they are stored: the views show whole seconds. */
export async function secondsOf({ collections }: Database, importId: number): Promise<number> {
  const stored = await collections.imports.findOne(
    { _id: importId },
    { projection: { begins_at: 1, finished_at: 1 } },
  )
  return (stored!.finished_at!.getTime() - stored!.begins_at.getTime()) / 1000
}

/**
 * What is stored of a list's subscribers. Those of a small list are found by its index; most of a collection is read as
 * it lies, or else a server with a small cache reads each page many times.
 */
export async function documentsOf(
  { collections }: Database,
  { listId, pointsId }: List,
  size: 'large' | 'small' = 'large',
): Promise<Documents> {
  const sum = { count: { $sum: 1 }, points: { $sum: `$custom_fields.${pointsId}` } }
  const [sums] = await collections.subscribers
    .aggregate<Documents>(
      [{ $match: { mailing_list_id: listId } }, { $group: { _id: null, ...sum } }],
      size === 'large' ? { hint: { $natural: 1 } } : {},
    )
    .toArray()
  return { count: sums?.count ?? 0, points: sums?.points ?? 0 }
}
