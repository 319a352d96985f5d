import { parse } from 'csv-parse'
import type { Collection, Document } from 'mongodb'
import { ApiRefusal, type ApiClient } from '../control-plane/cli/api-client.ts'
import type { ImportView } from '../control-plane/resources/subscriber-imports/schemas.ts'
import { logKinds, type ImportCounts } from '../shared/contract/schemas/import.ts'
import type { Database } from '../shared/runtime/database.ts'
import { fieldValues, flatDocument, sampleRows, wrongSample, type Sample } from './datasets/documents.ts'
import type { Documents, SubscriberFile } from './datasets/subscriber-file.ts'
import type { List } from './imports.ts'

interface FinishedImport {
  view: ImportView
  list: List
  expected: Partial<ImportCounts>
  /** The file whose values the list's subscribers have now. */
  leaves: SubscriberFile
}

/**
 * Compares what an import did with what its file says: counts, logs, the number of subscribers, the sum of their
 * points, and a sample of them. Resolves to a sentence about the first difference, null where there is none.
 */
export async function wrongImport(
  { client, database }: { client: ApiClient; database: Database },
  { view, list, expected, leaves }: FinishedImport,
): Promise<string | null> {
  const { subscribers } = database.collections
  // A small list's subscribers are found by its index. Most of a collection is read in its natural order, because in
  // the index's order a server with a small cache would read each page many times.
  const hint = leaves.rows > 10_000 ? { hint: { $natural: 1 } } : {}
  const points = `custom_fields.${list.fieldIds.get('points')}`
  const stored = () => sumDocuments(subscribers, { mailing_list_id: list.listId }, points, hint)
  return (
    wrongCounts(view, expected) ??
    (await wrongLogs(client, view)) ??
    wrongDocuments(await stored(), leaves.expectedDocuments()) ??
    (await wrongSubscribers(database, list, leaves))
  )
}

/** Counts that aren't expected must be 0. */
export function wrongCounts(view: ImportView, expected: Partial<ImportCounts>): string | null {
  if (view.state !== 'finished') return `the import is ${view.state}: ${view.error_message}`
  const right = new Map<string, number | undefined>(Object.entries(expected))
  for (const [kind, count] of Object.entries(view.stats.subscribers))
    if (count !== (right.get(kind) ?? 0))
      return `${count} ${kind} were counted instead of ${right.get(kind) ?? 0}`
  return null
}

export function wrongDocuments(found: Documents, expected: Documents): string | null {
  return found.count === expected.count && found.points === expected.points
    ? null
    : `${found.count} documents with ${found.points} points are stored instead of ${expected.count} with ${expected.points}`
}

/** A log has as many rows as were counted; without rows there is no log. */
async function wrongLogs(client: ApiClient, { id, stats }: ImportView): Promise<string | null> {
  for (const kind of logKinds) {
    const logged = await countLoggedRows(client, id, kind)
    const counted = stats.subscribers[kind]
    if (logged !== counted) return `the log ${kind} has ${logged} rows, ${String(counted)} were counted`
  }
  return null
}

/** Only failed rows are records of several columns, whose cells may have line breaks. */
async function countLoggedRows(client: ApiClient, id: number, kind: string): Promise<number> {
  let rows = 0
  try {
    const { body } = await client.text(`/subscriber_imports/${id}/logs/${kind}`)
    if (kind === 'failed') for await (const _ of body.compose(parse({ from_line: 2 }))) rows += 1
    else for await (const piece of body.setEncoding('latin1')) rows += String(piece).split('\n').length - 1
  } catch (error) {
    if (!(error instanceof ApiRefusal && error.code === 'not_found')) throw error
  }
  return rows
}

export async function sumDocuments<Stored extends Document>(
  collection: Collection<Stored>,
  $match: Document,
  pointsPath: string,
  options = {},
): Promise<Documents> {
  const $group = { _id: null, count: { $sum: 1 }, points: { $sum: `$${pointsPath}` } }
  const [sums] = await collection.aggregate<Documents>([{ $match }, { $group }], options).toArray()
  return { count: sums?.count ?? 0, points: sums?.points ?? 0 }
}

async function wrongSubscribers(
  { collections }: Database,
  { listId, fieldIds }: List,
  leaves: SubscriberFile,
): Promise<string | null> {
  const expected: Sample = new Map()
  for (const row of sampleRows(leaves.rows)) {
    const first = leaves.firstRow(row)
    const email = leaves.emailOf(first)
    const { subscribe_time } = flatDocument(leaves, first)
    const stored = {
      email,
      status: 'active',
      subscribe_time,
      ...Object.fromEntries(fieldValues(leaves, first)),
    }
    expected.set(`${listId}:${email}`, leaves.kindOf(first) === 'good' ? stored : null)
  }
  const found: Sample = new Map()
  const names = new Map([...fieldIds].map(([name, id]) => [String(id), name]))
  for await (const document of collections.subscribers.find({ _id: { $in: [...expected.keys()] } })) {
    const { _id, email, status, subscribe_time, custom_fields } = document
    const named = Object.entries(custom_fields).map(([id, value]) => [names.get(id) ?? id, value] as const)
    found.set(_id, { email, status, subscribe_time, ...Object.fromEntries(named) })
  }
  return wrongSample(found, expected)
}
