import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import type { Service } from '../service.ts'

/** Lists, imports of every state, uploads, keys and users for the console's screenshots. */

const longName =
  'Members, donors and everybody who ever bought a ticket for the summer festival, 2019 to 2026'
const rightToLeftName = 'قائمة عملاء الشرق الأوسط'

export interface ConsoleData {
  listId: number
  finished: number
  importing: number
  failed: number
  paused: number
  close: () => void
}

/** What it makes belongs to the first organization. `rows`: of the largest list. */
export async function makeConsoleData(service: Service, rows: number): Promise<ConsoleData> {
  const { client } = service
  const upload = (name: string, count: number) =>
    service.place(new SubscriberFile({ rows: count, seed: 1 }).bytes(), encodeURIComponent(name))
  const inline = (listId: number, filename: string, lines: string[], more: object = {}) =>
    startImport(client, listId, {
      column_mapping: ['email'],
      file_source: { type: 'json', content: `${lines.join('\n')}\n`, display_name: filename },
      ...more,
    })
  const make = async (name: string) => (await createList(client, name)).listId
  await fetch(`${service.url}/svc/api/v2/organizations/1`, {
    method: 'PUT',
    headers: { authorization: service.authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ organization: { name: 'Example Press', time_zone_name: 'Europe/Berlin' } }),
  })
  const newsletter = await make('Newsletter')
  const [long, rightToLeft, customers] = [
    await make(longName),
    await make(rightToLeftName),
    await make('Customers in Germany'),
  ]
  const people = Array.from({ length: 340 }, (_, i) => `person${i}@example.com`)

  await upload('newsletter-2026-11.csv', rows)
  const finished = await startImport(client, newsletter, { file_source: uploaded('newsletter-2026-11.csv') })
  await pollImport(client, finished)
  await pollImport(client, await inline(rightToLeft, 'مشتركون جدد - نوفمبر.csv', ['email', ...people]))
  await pollImport(
    client,
    await inline(long, `${longName}.csv`, ['email', 'no address', 'ann@example', ...people]),
  )
  await pollImport(
    client,
    await inline(customers, 'kunden.csv', ['email', ...people, 'no address'], { dry_run: true }),
  )
  const failed = await inline(customers, 'kunden.pdf', ['%PDF-1.7', 'ann@example.com'])
  await pollImport(client, failed)
  await inline(customers, 'kunden-morgen.csv', ['email', ...people], { begins_at: '2099-01-01T08:00:00' })

  // Far larger than what is imported until the last screenshot.
  await upload('all-customers.csv', rows * 10)
  await upload('partner-acme.csv', 500)
  await client.putBytes('/uploads/unfinished.csv', Readable.from([Buffer.alloc(40_000, 'x\n')]), {
    'content-range': 'bytes 0-39999/100000',
  })
  const begin = async (listId: number) => {
    const id = await startImport(client, listId, { file_source: uploaded('all-customers.csv') })
    await pollImport(client, id, ({ stats }) => stats.records_imported > 0)
    return id
  }
  const cancelled = await begin(long)
  await client.post(`/subscriber_imports/${cancelled}/cancel`)
  const paused = await begin(rightToLeft)
  await client.post(`/subscriber_imports/${paused}/pause`)
  const importing = await begin(customers)
  // A server that sends its beginning alone.
  const slow = createServer((_request, response) => void response.write('email\nann@example.com\n'))
  await once(slow.listen(0, '127.0.0.1'), 'listening')
  const { port } = slow.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/exports/customers.csv`
  await startImport(client, await make('Webinars'), {
    ...{ column_mapping: ['email'], file_source: { type: 'url', url } },
  })

  for (const [name, more] of [
    ['Nightly job', { role: 'organization_admin' }],
    ['Acme Ltd', { role: 'uploads', uploads_folder: 'acme' }],
    ['Dashboard on the wall', { role: 'standard' }],
  ] as const)
    await client.post('/api_keys', { api_key: { name, ...more } })
  for (const [full_name, email, role] of [
    ['Jane Roe', 'jane@example.com', 'organization_admin'],
    ['Łukasz Wiśniewski', 'lukasz@example.com', 'standard'],
  ])
    await client.post('/users', {
      user: {
        ...{ full_name, email, role, active: true, permissions: {} },
        ...{ password1: 'correct horse battery', password2: 'correct horse battery' },
      },
    })
  return { listId: newsletter, finished, importing, failed, paused, close: () => slow.closeAllConnections() }
}
