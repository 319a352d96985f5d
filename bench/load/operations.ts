import { customFields } from '../datasets/subscriber-file.ts'
import type { CannonRequest } from './cannon.ts'
import { seededRandom } from './random.ts'
import type { MeasuredService } from './service-client.ts'
import type { LoadedSubscribers } from './subscribers.ts'

/** A kind of request, made anew for each round. */
export interface Operation {
  name: string
  /** Milliseconds that 99 of 100 replies must keep. */
  goalMs: number | null
  requests(round: number): CannonRequest[]
}

interface Known {
  listId: number
  id: number
  email: string
}

const sampleSize = 20_000
const requestsOfRound = 30_000
const farPage = 10_000
const perPage = 100
const maxPerPage = 500

/** What may take longer the more subscribers there are, and only reads. */
export const mayGrow = ({ name }: Pick<Operation, 'name'>): boolean => /^(?:counts|page )/.test(name)

const base = '/svc/api/v2'

export async function operationsOn(
  service: MeasuredService,
  loaded: LoadedSubscribers,
  seed: number,
): Promise<{ operations: Operation[]; farPage: number }> {
  const { lists, file } = loaded
  const known = await sampleSubscribers(service, loaded, seed)
  const smallest = lists.at(-1)!.size
  const onAllLists = Array.from({ length: Math.min(smallest, 1_000) }, (_, row) => file.emailOf(row))
  const far = await walkTo(service, lists[0]!)
  // Not by the seed: a folder that is measured again knows the addresses of the last time.
  const run = Date.now().toString(36)
  let created = 0
  const random = seededRandom(seed)
  const anyOf = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const many = (make: () => CannonRequest) => Array.from({ length: requestsOfRound }, make)
  const get = (path: string, expect: string): CannonRequest => ({ method: 'GET', path: base + path, expect })

  const operations: Operation[] = [
    {
      name: 'read by id',
      goalMs: 25,
      requests: () =>
        many(() => {
          const { listId, id } = anyOf(known)
          return get(`/mailing_lists/${listId}/subscribers/${id}`, `"id":${id},`)
        }),
    },
    {
      name: 'read by email',
      goalMs: 25,
      requests: () =>
        many(() => {
          const { listId, email } = anyOf(known)
          return get(
            `/mailing_lists/${listId}/subscribers/${encodeURIComponent(email)}`,
            `"email":"${email}"`,
          )
        }),
    },
    {
      name: 'find by email, on 1-4 lists',
      goalMs: 25,
      requests: () =>
        many(() => {
          const { email } = anyOf(known)
          return get(`/subscribers_by_email/${encodeURIComponent(email)}`, `"email":"${email}"`)
        }),
    },
    {
      name: `find by email, on ${lists.length} lists`,
      goalMs: 25,
      requests: () =>
        many(() =>
          get(
            `/subscribers_by_email/${encodeURIComponent(anyOf(onAllLists))}?per_page=${maxPerPage}`,
            `"mailing_list":{"id":${lists.at(-1)!.id},`,
          ),
        ),
    },
    {
      name: 'create',
      goalMs: 25,
      requests: () =>
        many(() => {
          created += 1
          const email = `bench.${run}.${created}@example.com`
          return {
            method: 'POST',
            path: `${base}/mailing_lists/${lists[0]!.id}/subscribers`,
            body: JSON.stringify({
              subscriber: {
                email,
                subscribe_ip: '192.0.2.7',
                custom_fields: {
                  first_name: 'Zoë',
                  last_name: 'Example',
                  points: created,
                  birthday: '1980-02-29',
                },
              },
            }),
            expect: `"email":"${email}"`,
          }
        }),
    },
    {
      name: 'update',
      goalMs: 25,
      requests: () =>
        many(() => {
          const { listId, id } = anyOf(known)
          const status = random() < 0.5 ? 'active' : 'unsubscribed'
          return {
            method: 'PUT',
            path: `${base}/mailing_lists/${listId}/subscribers/${id}`,
            body: JSON.stringify({
              subscriber: {
                ...(random() < 0.25 ? { status } : {}),
                custom_fields: {
                  points: Math.floor(random() * 100_000),
                  plan: anyOf(customFields[4].options),
                },
              },
            }),
            expect: `"id":${id},`,
          }
        }),
    },
    {
      name: 'counts',
      goalMs: 15,
      requests: () => [get('/subscriber_counts', `"mailing_list":{"id":${lists.at(-1)!.id},`)],
    },
    {
      name: 'page 1',
      goalMs: null,
      requests: () => [get(far.path, `"id":${far.idOnFirst},`)],
    },
    {
      name: `page ${far.page.toLocaleString('en')} by token`,
      goalMs: null,
      requests: () => [
        get(`${far.path}&page_token=${encodeURIComponent(far.token)}`, `"id":${far.idOnFar},`),
      ],
    },
  ]
  return { operations, farPage: far.page }
}

/** Some subscribers of the four larger lists with their ids, the big list's as often as it has more of them. */
async function sampleSubscribers(
  { database }: MeasuredService,
  { lists, file }: LoadedSubscribers,
  seed: number,
): Promise<Known[]> {
  const random = seededRandom(seed + 1)
  const larger = lists.slice(0, 4)
  const total = larger.reduce((sum, { size }) => sum + size, 0)
  const known: Known[] = []
  for (const { id: listId, size } of larger) {
    const count = Math.ceil((sampleSize * size) / total)
    const keys = Array.from({ length: count }, () => `${listId}:${file.emailOf(Math.floor(random() * size))}`)
    for (let i = 0; i < count; i += 1_000) {
      const found = database.collections.subscribers
        .find({ _id: { $in: keys.slice(i, i + 1_000) } })
        .project<{ id: number; email: string }>({ id: 1, email: 1 })
      for await (const { id, email } of found) known.push({ listId, id, email })
    }
  }
  return known
}

interface FarPage {
  path: string
  /** From 1; the last full one of the list where it has fewer than were wanted. */
  page: number
  token: string
  idOnFirst: number
  idOnFar: number
}

/** Goes through a list by token, and sees that no record is missed or comes twice. */
async function walkTo(
  { read }: MeasuredService,
  { id, size }: { id: number; size: number },
): Promise<FarPage> {
  const page = Math.min(farPage, Math.floor(size / perPage))
  const path = `/mailing_lists/${id}/subscribers?per_page=`
  const toSkip = (page - 1) * perPage
  let skipped = 0
  let last = 0
  let token = ''
  let idOnFirst = 0
  for (;;) {
    const count = Math.min(maxPerPage, toSkip - skipped || perPage)
    const next = await read(
      `${path}${count}${token === '' ? '' : `&page_token=${encodeURIComponent(token)}`}`,
    )
    const ids = next.data.map((record) => (record as { id: number }).id)
    idOnFirst ||= ids[0]!
    if (ids.length !== count || ids.some((id, i) => id <= (i === 0 ? last : ids[i - 1]!)))
      throw new Error(`the page after subscriber ${last} isn't the next ${count} subscribers in order`)
    if (skipped === toSkip) return { path: `${path}${perPage}`, page, token, idOnFirst, idOnFar: ids[0]! }
    skipped += count
    last = ids.at(-1)!
    if (next.next_page_token === null)
      throw new Error(`no page follows after ${skipped} of ${size} subscribers`)
    token = next.next_page_token
  }
}
