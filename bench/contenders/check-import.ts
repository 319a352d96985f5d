import { pipeline } from 'node:stream/promises'
import { parse } from 'csv-parse'
import { ApiRefusal, type ApiClient, type ImportView } from '../../control-plane/cli/api-client.ts'
import type { Database } from '../../shared/runtime/database.ts'
import { logKinds, type ImportCounts } from '../../shared/contract/schemas/import.ts'
import { sampledRows, wrongSample, type Sample } from '../datasets/sample.ts'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import { flatDocument } from '../peers/flat-document.ts'
import { documentsOf, type List } from './installation.ts'

/**
 * Whether an import did what its file says, once the clock stands still: its counts, its logs, how many subscribers the
 * list has and the sum of their points, and some of them whole. Each says what is wrong in words, null for nothing.
 */
export async function wrongImport(
  service: { client: ApiClient; database: Database },
  { view, list, expected, leaves, ...more }: FinishedImport,
): Promise<string | null> {
  return (
    wrongCounts(view, expected) ??
    (await wrongLogs(service.client, view)) ??
    wrongDocuments(await documentsOf(service.database, list, more.size), leaves.expectedDocuments()) ??
    (await wrongSubscribers(service.database, leaves, () => list, more.subscribeTimes))
  )
}

export interface FinishedImport {
  view: ImportView
  list: List
  /** What it has to count. */
  expected: Partial<ImportCounts>
  /** The file whose values the list's subscribers have now. */
  leaves: SubscriberFile
  /** The file that says when they subscribed, where that is another one. */
  subscribeTimes?: SubscriberFile | undefined
  size?: 'large' | 'small'
}

/** Every count, those that aren't expected included: they are to be 0. */
export function wrongCounts(view: ImportView, expected: Partial<ImportCounts>): string | null {
  if (view.state !== 'finished') return `the import is ${view.state}: ${view.error_message}`
  for (const [kind, count] of Object.entries(view.stats.subscribers)) {
    const right = (expected as Record<string, number>)[kind] ?? 0
    if (count !== right) return `${count} ${kind} were counted, not ${right}`
  }
  return null
}

export function wrongDocuments(found: Documents, expected: Documents): string | null {
  return found.count === expected.count && found.points === expected.points
    ? null
    : `${found.count} documents with ${found.points} points are stored, not ${expected.count} with ${expected.points}`
}

/** Each log has as many rows as were counted; where none was, there is no log. */
export async function wrongLogs(client: ApiClient, { id, stats }: ImportView): Promise<string | null> {
  for (const kind of logKinds) {
    const logged = await loggedRows(client, id, kind)
    const counted = stats.subscribers[kind]
    if (logged !== counted) return `the log ${kind} has ${logged} rows, ${String(counted)} were counted`
  }
  return null
}

async function loggedRows(client: ApiClient, id: number, kind: string): Promise<number> {
  let rows = 0
  try {
    const { body: log } = await client.text(`/subscriber_imports/${id}/logs/${kind}`)
    if (kind === 'failed')
      await pipeline(log, parse({ from_line: 2 }), async (records: AsyncIterable<string[]>) => {
        for await (const _ of records) rows += 1
      })
    else for await (const piece of log as AsyncIterable<Buffer>) rows += linesIn(piece)
  } catch (error) {
    if (!(error instanceof ApiRefusal && error.code === 'not_found')) throw error
  }
  return rows
}

function linesIn(piece: Buffer): number {
  let lines = 0
  for (let at = piece.indexOf(0x0a); at !== -1; at = piece.indexOf(0x0a, at + 1)) lines += 1
  return lines
}

/** A sample of a file's rows, on the list on which each has to be: email, status, custom fields, time of subscription. */
export async function wrongSubscribers(
  { collections }: Database,
  leaves: SubscriberFile,
  listOf: (row: number) => List,
  subscribeTimes = leaves,
): Promise<string | null> {
  const expected: Sample = new Map()
  const fieldNames = new Map<string, string>()
  for (const row of sampledRows(leaves.rows)) {
    const first = leaves.kindOf(row) === 'duplicate' ? leaves.originalOf(row)! : row
    const { listId, fieldIds } = listOf(row)
    for (const [name, id] of fieldIds) fieldNames.set(`${listId}:${id}`, name)
    const { email, subscribe_time: _, ...values } = flatDocument(leaves, first)
    const { subscribe_time } = flatDocument(subscribeTimes, first)
    const subscriber = { email, status: 'active', subscribe_time, ...withoutTimes(values) }
    expected.set(`${listId}:${String(email)}`, leaves.kindOf(first) === 'good' ? subscriber : null)
  }
  const found: Sample = new Map()
  for await (const document of collections.subscribers.find({ _id: { $in: [...expected.keys()] } })) {
    const { _id, mailing_list_id: listId, email, status, subscribe_time, custom_fields } = document
    const values = Object.entries(custom_fields).map(([id, value]) => [
      fieldNames.get(`${listId}:${id}`),
      value,
    ])
    found.set(_id, { email, status, subscribe_time, ...(Object.fromEntries(values) as object) })
  }
  return wrongSample(found, expected)
}

/** A custom field that is a date is stored as `2026-12-31`. */
function withoutTimes(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      value instanceof Date ? value.toISOString().slice(0, 10) : value,
    ]),
  )
}
