import { setTimeout as sleep } from 'node:timers/promises'
import { columns, SubscriberFile, type Rows } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { whole } from '../report/text.ts'
import type { Options } from '../scenario.ts'
import type { Service } from '../service.ts'

/** The subscribers of `requests`: many lists of one organization, loaded by the product's own imports. */
export interface LoadedSubscribers {
  /** The largest first. Each list has the first rows of the file, so the smallest list's emails are on all of them. */
  lists: { id: number; size: number }[]
  big: { id: number; size: number }
  smallest: { id: number; size: number }
  file: SubscriberFile
}

const smallLists = 196
const rowsOfFile = 1_000_000
/** Fewer rows are sent with the request. */
const minRowsOfFile = 10_000

/** One big list, three with 8 % each, and many small ones. */
function listSizes(subscribers: number): number[] {
  const middling = Math.floor(subscribers * 0.08)
  const small = Math.max(1, Math.floor((subscribers * 0.06) / smallLists))
  const others = [middling, middling, middling, ...new Array<number>(smallLists).fill(small)]
  return [subscribers - others.reduce((sum, size) => sum + size, 0), ...others]
}

/** Loads what isn't there `before`. */
export async function loadSubscribers(
  service: Service,
  { subscribers, seed, say }: Pick<Options, 'seed' | 'say'> & { subscribers: number },
  before: LoadedSubscribers | null = null,
): Promise<LoadedSubscribers> {
  const startedAt = performance.now()
  const sizes = listSizes(subscribers)
  const file = new SubscriberFile({ rows: Math.max(...sizes), seed, defects: false })
  say(`loading up to ${whole(subscribers)} subscribers into ${sizes.length} lists ...`)
  const lists: LoadedSubscribers['lists'] = []
  const ids: number[] = []
  for (const [i, size] of sizes.entries()) {
    const known = before?.lists[i]
    const id = known?.id ?? (await createList(service.client, `List ${i + 1}`)).listId
    const first = known?.size ?? 0
    if (size > first)
      ids.push(...(await importRows(service, file, { listId: id, first, count: size - first })))
    lists.push({ id, size })
  }
  await waitForEnds(service, ids)
  say(`loaded in ${Math.round((performance.now() - startedAt) / 1000)} s`)
  return { lists, big: lists[0]!, smallest: lists.at(-1)!, file }
}

async function importRows(
  { client, place }: Service,
  file: SubscriberFile,
  { listId, first, count }: Rows & { listId: number },
): Promise<number[]> {
  if (count < minRowsOfFile) {
    const content = [...file.text(columns, [{ first, count }])].join('')
    return [await startImport(client, listId, { file_source: { type: 'json', content } })]
  }
  const ids: number[] = []
  for (let row = first; row < first + count; row += rowsOfFile) {
    const rows = { first: row, count: Math.min(rowsOfFile, first + count - row) }
    await place(file.bytes(columns, [rows]), 'load.csv')
    const id = await startImport(client, listId, { file_source: uploaded('load.csv') })
    await pollImport(client, id)
    ids.push(id)
  }
  return ids
}

async function waitForEnds({ client, database }: Service, ids: number[]): Promise<void> {
  while ((await client.get<unknown[]>('/subscriber_imports?scope=active')).length > 0) await sleep(200)
  const wrong = await database.collections.imports.findOne({ _id: { $in: ids }, state: { $ne: 'finished' } })
  if (wrong !== null) throw new Error(`import ${wrong._id} of the data set is ${wrong.state}`)
}
