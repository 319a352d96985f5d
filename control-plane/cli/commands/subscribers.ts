import { once } from 'node:events'
import type { SubscriberCountsView } from '../../resources/subscriber-counts/schemas.ts'
import type { SubscriberView } from '../../resources/subscribers/schemas.ts'
import { findList } from '../mailing-list.ts'
import type { Session } from '../session.ts'
import { writeTable } from '../terminal.ts'
import { printRecord } from './records.ts'

/** Shows subscribers of a list, and counts of them. */

const columns = ['id', 'email', 'status', 'subscribe_time'] as const

/** Prints a list's subscribers page by page, so that memory doesn't grow with the list. */
export async function listSubscribers(
  session: Session,
  idOrName: string,
  options: { json?: true },
): Promise<void> {
  const { client, terminal } = session
  const { out } = terminal
  const list = await findList(client, idOrName)
  const isJson = options.json === true
  let isFirst = true
  for await (const page of client.pages<SubscriberView>(`/mailing_lists/${list.id}/subscribers`)) {
    const rows = page.map((subscriber) =>
      columns.map((column) => subscriber[column] as string | number | null),
    )
    const hasCapacity = isJson
      ? out.write(page.map((record, i) => (isFirst && i === 0 ? '[' : ',') + JSON.stringify(record)).join(''))
      : writeTable(terminal, out, [...columns], rows, { isContinued: !isFirst })
    if (!hasCapacity) await once(out, 'drain')
    if (page.length > 0) isFirst = false
  }
  if (isJson) out.write(isFirst ? '[]\n' : ']\n')
}

/** Prints all subscribers of a list with an email. The service refuses a request for none. */
export async function showSubscribers(
  session: Session,
  idOrName: string,
  email: string,
  options: { json?: true },
): Promise<void> {
  const { client, terminal } = session
  const list = await findList(client, idOrName)
  const found = await client.get<SubscriberView[]>(
    `/mailing_lists/${list.id}/subscribers/${encodeURIComponent(email)}`,
  )
  if (options.json === true) session.print(found)
  else
    for (const [i, { custom_fields: fields, ...subscriber }] of found.entries()) {
      if (i > 0) session.say('')
      const values = Object.entries(fields).map(([name, { value }]): [string, unknown] => [name, value])
      printRecord(terminal, subscriber, Object.fromEntries(values))
    }
}

export async function showCounts(session: Session, options: { org?: number; json?: true }): Promise<void> {
  const { client, terminal } = session
  const path = options.org === undefined ? '' : `/organizations/${options.org}`
  const counts = await client.get<SubscriberCountsView>(`${path}/subscriber_counts`)
  if (options.json === true) {
    session.print(counts)
    return
  }
  const statuses = Object.keys(counts.counts)
  const row = (id: number | null, name: string, of: Record<string, number>) => [
    id,
    name,
    ...statuses.map((status) => of[status] ?? 0),
  ]
  const rows = counts.mailing_lists.map((list) =>
    row(list.mailing_list.id, list.mailing_list.name, list.counts),
  )
  rows.push(row(null, 'all lists', counts.counts))
  writeTable(terminal, terminal.out, ['id', 'list', ...statuses], rows)
}
