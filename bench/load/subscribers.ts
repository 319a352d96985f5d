import { createWriteStream } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportView } from '../../control-plane/cli/api-client.ts'
import { listSizes } from '../datasets/list-sizes.ts'
import { columns, customFields, SubscriberFile } from '../datasets/subscriber-file.ts'
import type { MeasuredService } from './service-client.ts'

/** The subscribers that requests are about: many lists of one organization, loaded by the product's own imports. */
export interface LoadedSubscribers {
  /** The largest first. */
  lists: { id: number; size: number }[]
  file: SubscriberFile
}

const listCount = 200
const rowsOfFile = 1_000_000
/** More rows than this come in a file, fewer with the request. */
const rowsInline = 10_000

export async function loadSubscribers(
  service: MeasuredService,
  options: { subscribers: number; seed: number; folder: string; say: (text: string) => void },
): Promise<LoadedSubscribers> {
  const { subscribers, seed, folder, say } = options
  const sizes = listSizes(subscribers, listCount)
  const file = new SubscriberFile({ rows: sizes[0]!, seed, defects: false })
  const record = path.join(folder, 'subscribers.json')
  const before = JSON.parse(await readFile(record, 'utf8').catch(() => 'null')) as {
    subscribers: number
    seed: number
    lists: LoadedSubscribers['lists']
  } | null
  if (before !== null) {
    if (before.subscribers > subscribers || before.seed !== seed)
      throw new Error(
        `${folder} holds ${before.subscribers} subscribers of seed ${before.seed}: say --subscribers ${before.subscribers} --seed ${before.seed}, or name another folder`,
      )
    if (before.subscribers === subscribers) return { lists: before.lists, file }
  }

  const startedAt = performance.now()
  const more = subscribers - (before?.subscribers ?? 0)
  say(`loading ${more.toLocaleString('en')} subscribers into ${sizes.length} lists ...`)
  await mkdir(service.uploads, { recursive: true })
  const lists: LoadedSubscribers['lists'] = []
  for (const [i, size] of sizes.entries())
    lists.push({ id: before?.lists[i]?.id ?? (await createList(service, `List ${i + 1}`)), size })
  const begun: number[] = []
  for (const [i, { id, size }] of lists.entries()) {
    const first = before?.lists[i]?.size ?? 0
    if (size > first)
      begun.push(...(await importRows(service, file, { listId: id, first, count: size - first })))
  }
  await importsEnded(service, begun)
  await writeFile(record, JSON.stringify({ subscribers, seed, lists }))
  say(`loaded in ${Math.round((performance.now() - startedAt) / 1000)} s`)
  return { lists, file }
}

async function createList(service: MeasuredService, name: string): Promise<number> {
  const { client } = service
  const { id } = await client.post<{ id: number }>('/mailing_lists', { mailing_list: { name } })
  for (const field of customFields)
    await client.post(`/mailing_lists/${id}/custom_fields`, { custom_field: field })
  return id
}

export interface Rows {
  first: number
  count: number
}

async function importRows(
  service: MeasuredService,
  file: SubscriberFile,
  { listId, first, count }: Rows & { listId: number },
): Promise<number[]> {
  if (count <= rowsInline) {
    const content = [...linesOf(file, [{ first, count }])].join('')
    return [(await startImport(service, listId, { type: 'json', content })).id]
  }
  const begun: number[] = []
  for (let row = first; row < first + count; row += rowsOfFile) {
    const name = `load-${listId}-${row}.csv`
    await writeRows(path.join(service.uploads, name), file, [
      { first: row, count: Math.min(rowsOfFile, first + count - row) },
    ])
    const { id } = await startImport(service, listId, { type: 'upload_directory', filename: name })
    await importsEnded(service, [id])
    await rm(path.join(service.uploads, name))
    begun.push(id)
  }
  return begun
}

export async function writeRows(target: string, file: SubscriberFile, ranges: Rows[]): Promise<void> {
  await pipeline(Readable.from(linesOf(file, ranges)), createWriteStream(target))
}

/** The rows as text of a file, header first, in pieces of some hundred kB. */
export function* linesOf(file: SubscriberFile, ranges: Rows[]): Generator<string> {
  let piece = `${columns.join(',')}\n`
  for (const { first, count } of ranges) {
    for (let row = first; row < first + count; row += 1) {
      piece += file.line(row)
      if (piece.length < 256 * 1024) continue
      yield piece
      piece = ''
    }
  }
  yield piece
}

export function startImport(
  { client }: MeasuredService,
  listId: number,
  source: Record<string, unknown>,
  options: Record<string, unknown> = {},
): Promise<ImportView> {
  return client.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { ...options, column_mapping: columns, file_source: source },
  })
}

async function importsEnded({ client, database }: MeasuredService, ids: number[]): Promise<void> {
  while ((await client.get<ImportView[]>('/subscriber_imports?scope=active')).length > 0) await sleep(200)
  const wrong = await database.collections.imports.findOne({ _id: { $in: ids }, state: { $ne: 'finished' } })
  if (wrong !== null) throw new Error(`import ${wrong._id} of the data set is ${wrong.state}`)
}
