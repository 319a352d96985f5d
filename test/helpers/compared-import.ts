import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { columns, customFields, SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { batchRecords } from '../../shared/csv/chunk-records.ts'
import { idsOfImport, logKinds } from '../../shared/contract/schemas/import.ts'
import { subscriberStatuses, type SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { autoresponder } from './autoresponder.ts'
import { createList, importEnd, until, type Json, type Service } from './service.ts'
import { storedUploads } from './stored-uploads.ts'
import { present } from './present.ts'

/**
 * One import runs again and again on lists with the same content. Whatever happened to the engines, it must leave the
 * same table, counts and logs, and nothing else.
 *
 * It does all that an import can: it adds, overwrites, skips by status, skips duplicates, fails rows, queues
 * reactions and deactivates, and it reserves quota under a subscriber limit. One address is repeated in three
 * batches, and absent subscribers of one range are deactivated in several transactions.
 */

const dates = '2020-02-20 20:20:20'

export async function writeFiles(
  service: Service,
  { rows, repeated }: { rows: number; repeated: number },
): Promise<void> {
  const file = new SubscriberFile({ rows, seed: 5 })
  await storedUploads(service).put('before.csv', [...linesBefore(file)].join(''))
  await storedUploads(service).put('file.csv', [...file.text(), ...repeatedLines(repeated)].join(''))
}

/** Two batches, and a third one that is short. */
export const threeBatches = 2 * batchRecords + 100

function* linesBefore(file: SubscriberFile): Generator<string> {
  const line = (email: string, status: string) => `${email},${status},${dates},before\n`
  yield 'email,status,subscribe_time,first_name\n'
  const statuses = ['active', 'active', 'active', 'unsubscribed', 'active', 'bounced']
  for (let row = 0; row < file.rows; row += 3) {
    if (file.kindOf(row) !== 'duplicate')
      yield line(file.emailOf(row), statuses[(row / 3) % statuses.length]!)
  }
  for (let i = 0; i < 1_100; i += 1) yield line(`absent.${i}@example.com`, i % 50 === 0 ? 'scomp' : 'active')
  for (let i = 0; i < 100; i += 1) yield line(`${(i * 7919).toString(36)}.absent@example.com`, 'active')
}

function* repeatedLines(count: number): Generator<string> {
  for (let i = 0; i < count; i += 1) yield `again@example.com,Again${i},,,,,,${dates}\n`
}

/** Lists with the same subscribers. */
export async function prepareLists(service: Service, number: number): Promise<number[]> {
  const lists: number[] = []
  const created: number[] = []
  for (let i = 0; i < number; i += 1) {
    const { id } = await createList(service, [...customFields])
    await addAutoresponder(service, id)
    const { id: importId } = await service.post(`/mailing_lists/${id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email', 'status', 'subscribe_time', 'first_name'],
        file_source: { type: 'upload_directory', filename: 'before.csv' },
      },
    })
    lists.push(id)
    created.push(importId)
  }
  await service.collections.organizations.updateMany({}, { $set: { subscriber_limit: 10_000_000 } })
  for (const id of created) {
    await importEnd(service, id, 60_000 + 2_000 * number)
    await untilFinalized(service, id)
  }
  return lists
}

async function addAutoresponder(service: Service, listId: number): Promise<void> {
  await service.collections.autoresponders.insertOne(
    autoresponder({
      _id: listId,
      mailing_list_id: listId,
      name: 'Welcome',
      trigger_include_subscribers_from_import: true,
    }),
  )
}

/**
 * Begins the import; `url` where the file is downloaded instead of uploaded. A small one has it in every second request,
 * and deactivates nothing, so that it is written whole.
 */
export async function beginImport(
  service: Service,
  listId: number,
  {
    url,
    isSmall = false,
    hasCallback = false,
  }: { url?: string | undefined; isSmall?: boolean; hasCallback?: boolean } = {},
): Promise<number> {
  const uploaded = { type: 'upload_directory', filename: 'file.csv' }
  const inline = async () => ({ type: 'json', content: await storedUploads(service).content('file.csv') })
  const { id } = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: columns,
      overwrite: true,
      deactivate_subscribers_not_in_import: !isSmall,
      autoresponders: { subscription: { trigger: true, also_trigger_on_updated_subscribers: true } },
      file_source:
        url !== undefined ? { type: 'url', url } : isSmall && listId % 2 === 0 ? await inline() : uploaded,
      ...(hasCallback ? { callback_url: 'https://example.com/ended' } : {}),
    },
  })
  return id
}

export async function untilFinalized(service: Service, importId: number, timeoutMs?: number): Promise<void> {
  await until(
    `the end of import ${importId}, cleared up`,
    () => service.collections.imports.findOne({ _id: importId }, { projection: { plan: 0, options: 0 } }),
    (document) => document?.finalized === true,
    timeoutMs,
  )
}

/** What an import left, without what depends on the time or on the engine. */
export interface Left {
  view: Json
  table: string[]
  /** Subscribers by status: as counted by the stripes, and as they are in the table. */
  counted: Record<string, number>
  present: Record<string, number>
  ids: number
  /** Autoresponders of each subscriber's reactions, with repetitions. */
  reactions: string[]
  logs: Record<string, string>
}

export async function whatIsLeftBy(service: Service, importId: number): Promise<Left> {
  const { state, error_message, warnings, stats, failure_summary, mailing_list_id } = await service.get(
    `/subscriber_imports/${importId}`,
  )
  const subscribers = await service.collections.subscribers
    .find({ mailing_list_id })
    .sort({ _id: 1 })
    .toArray()
  const stripes = await service.collections.subscriberCounts.find({ mailing_list_id }).toArray()
  const reactions = await service.collections.reactions.find({ mailing_list_id }).toArray()
  const keys = new Map(subscribers.map(({ id, _id }) => [id, _id.slice(_id.indexOf(':'))]))
  const byStatus = (count: (status: (typeof subscriberStatuses)[number]) => number) =>
    Object.fromEntries(subscriberStatuses.map((status) => [status, count(status)]))
  const logs = logKinds.map(async (kind) => {
    const { body, text } = await service.call('GET', `/subscriber_imports/${importId}/logs/${kind}?line=true`)
    return [kind, body?.success === false ? body.error_code : text] as const
  })
  return {
    view: { state, error_message, warnings, stats, failure_summary },
    table: subscribers.map(tableRow),
    counted: byStatus((status) => stripes.reduce((sum, stripe) => sum + stripe[status], 0)),
    present: byStatus((status) => subscribers.filter((subscriber) => subscriber.status === status).length),
    ids: new Set(subscribers.map(({ id }) => id)).size,
    reactions: reactions.map(({ subscriber_id }) => keys.get(subscriber_id!) ?? 'no subscriber').sort(),
    logs: Object.fromEntries(await Promise.all(logs)),
  }
}

/** A row without values that differ in each list, and with times of now left out. */
function tableRow(subscriber: SubscriberDocument): string {
  const { _id, id: _1, mailing_list_id: _2, created_at: _3, remove_time, custom_fields, ...rest } = subscriber
  const fields = Object.entries(custom_fields).sort(([a], [b]) => Number(a) - Number(b))
  return JSON.stringify([
    _id.slice(_id.indexOf(':')),
    rest,
    remove_time !== undefined,
    fields.map(([, value]) => value),
  ])
}

/** Names the differences from the import that ran undisturbed. */
export function differences(undisturbed: Left, found: Left): string[] {
  const wrong: string[] = []
  const compare = (what: string, expected: unknown, is: unknown) => {
    const [a, b] = [JSON.stringify(expected), JSON.stringify(is)]
    if (a !== b) wrong.push(`${what}: ${b}, not ${a}`)
  }
  compare('the view', undisturbed.view, found.view)
  compare('subscribers', undisturbed.table.length, found.table.length)
  const row = found.table.findIndex((line, i) => line !== undisturbed.table[i])
  if (row !== -1) compare(`row ${row} of the table`, undisturbed.table[row], found.table[row])
  compare('the counters, beside the table,', found.present, found.counted)
  compare('different ids', found.table.length, found.ids)
  const reaction = found.reactions.findIndex((key, i) => key !== undisturbed.reactions[i])
  if (reaction !== -1) compare('a reaction', undisturbed.reactions[reaction], found.reactions[reaction])
  compare('reactions', undisturbed.reactions.length, found.reactions.length)
  for (const [kind, log] of Object.entries(found.logs)) {
    const expected = present(undisturbed.logs[kind], `log ${kind}`)
    if (log === expected) continue
    const [wanted, came] = [expected.split('\n'), log.split('\n')]
    const line = came.findIndex((text, i) => text !== wanted[i])
    compare(`log ${kind}, ${came.length} lines, not ${wanted.length}, line ${line}`, wanted[line], came[line])
  }
  return wrong
}

/** Names what a finalized import should have removed and hasn't. */
export async function leftovers(service: Service, importId: number): Promise<string[]> {
  const { imports, chunks, outcomes, failures, subscribers, ledgers } = service.collections
  const left: string[] = []
  const note = (what: string, is: boolean) => {
    if (is) left.push(what)
  }
  const document = present(await imports.findOne({ _id: importId }), `import ${importId}`)
  note('it holds its list', document.holds_list === true)
  note('it has a step', document.lease.token !== null)
  note('it has chunks', (await chunks.countDocuments({ _id: idsOfImport(importId) })) > 0)
  note('its files are counted', (await ledgers.countDocuments({ 'imports.import_id': importId })) > 0)
  const files = await readdir(path.join(service.dataFolder, 'staging', String(importId))).catch(() => [])
  note(`it has staged files: ${files.join(' ')}`, files.length > 0)
  const known = new Set((await imports.distinct('_id')).map(String))
  for (const logs of [outcomes, failures]) {
    const owners = await (logs as typeof outcomes)
      .aggregate<{ _id: string }>([{ $group: { _id: { $first: { $split: ['$_id', ':'] } } } }])
      .toArray()
    note(
      `logs of no import in ${logs.collectionName}`,
      owners.some(({ _id }) => !known.has(_id)),
    )
  }
  // An open transaction on one of these keeps it locked.
  const session = service.db.client.startSession()
  try {
    session.startTransaction()
    const options = { session, bypassDocumentValidation: true }
    const touch = { $set: { touched: true } }
    await subscribers.updateMany({ mailing_list_id: document.mailing_list_id }, touch, options)
    await imports.updateOne({ _id: importId }, touch, options)
  } catch (error) {
    left.push(`locked rows: ${String(error)}`)
  } finally {
    await session.abortTransaction()
    await session.endSession()
  }
  return left
}
