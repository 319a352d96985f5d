import { subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { customFields } from '../datasets/subscriber-file.ts'
import { whole } from '../report/text.ts'
import type { Service } from '../service.ts'
import type { CannonRequest } from './cannon.ts'
import { seededRandom } from './random.ts'
import type { LoadedSubscribers } from './subscribers.ts'

/** A kind of request. */
export interface Operation {
  name: string
  makeRequests: () => CannonRequest[]
  /** Where it is sent and what is measured, by default the service. */
  at?: Pick<Service, 'url' | 'processes'>
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

/** An operation that only reads, and may take longer with more subscribers. */
export const mayGrow = ({ name }: Pick<Operation, 'name'>): boolean => /^(?:counts|page )/.test(name)

const base = '/svc/api/v2'

export async function makeOperations(
  service: Service,
  loaded: LoadedSubscribers,
  seed: number,
): Promise<Operation[]> {
  const { lists, big, smallest, file } = loaded
  const known = await sampleSubscribers(service, loaded, seed)
  const far = await walkTo(service, big)
  // Not from the seed: a kept folder has the emails of earlier runs.
  const run = Date.now().toString(36)
  let created = 0
  const random = seededRandom(seed)
  const draw = (count: number) => Math.floor(random() * count)
  const plans = customFields[4].options

  const get = (path: string, expect: string): CannonRequest => ({ method: 'GET', path: base + path, expect })
  const send = (method: 'POST' | 'PUT', path: string, subscriber: object, expect: string): CannonRequest => ({
    method,
    path: base + path,
    body: JSON.stringify({ subscriber }),
    expect,
  })
  const many = (name: string, make: (subscriber: Known) => CannonRequest): Operation => ({
    name,
    makeRequests: () => Array.from({ length: requestsOfRound }, () => make(known[draw(known.length)]!)),
  })
  const one = (name: string, path: string, expect: string): Operation => ({
    name,
    makeRequests: () => [get(path, expect)],
  })
  return [
    many('read by id', ({ listId, id }) => get(`/mailing_lists/${listId}/subscribers/${id}`, `"id":${id},`)),
    many('read by email', ({ listId, email }) =>
      get(`/mailing_lists/${listId}/subscribers/${encodeURIComponent(email)}`, `"email":"${email}"`),
    ),
    many('find by email, in a list', ({ listId, email }) =>
      get(`/mailing_lists/${listId}/subscribers_by_email/${encodeURIComponent(email)}`, `"email":"${email}"`),
    ),
    many('find by email, on 1-4 lists', ({ email }) =>
      get(`/subscribers_by_email/${encodeURIComponent(email)}`, `"email":"${email}"`),
    ),
    many(`find by email, on ${lists.length} lists`, () => {
      const email = encodeURIComponent(file.emailOf(draw(Math.min(smallest.size, 1_000))))
      const expect = `"mailing_list":{"id":${smallest.id},`
      return get(`/subscribers_by_email/${email}?per_page=${maxPerPage}`, expect)
    }),
    many('create', () => {
      created += 1
      const email = `bench.${run}.${created}@example.com`
      const names = { first_name: 'Zoë', last_name: 'Example' }
      const custom_fields = { ...names, points: created, birthday: '1980-02-29' }
      const subscriber = { email, subscribe_ip: '192.0.2.7', custom_fields }
      return send('POST', `/mailing_lists/${big.id}/subscribers`, subscriber, `"email":"${email}"`)
    }),
    many('update of values', ({ listId, id }) => {
      const custom_fields = { points: draw(100_000), plan: plans[draw(plans.length)] }
      return send('PUT', `/mailing_lists/${listId}/subscribers/${id}`, { custom_fields }, `"id":${id},`)
    }),
    many('change of status', ({ listId, id }) => {
      const status = subscriberStatuses[draw(subscriberStatuses.length)]
      return send('PUT', `/mailing_lists/${listId}/subscribers/${id}`, { status }, `"id":${id},`)
    }),
    one('counts', '/subscriber_counts', `"mailing_list":{"id":${smallest.id},`),
    one('page 1', far.path, `"id":${far.idOnFirst},`),
    one(
      `page ${whole(far.page)} by token`,
      `${far.path}&page_token=${encodeURIComponent(far.token)}`,
      `"id":${far.idOnFar},`,
    ),
  ]
}

/** Subscribers of the four largest lists, of each in proportion to its size. */
async function sampleSubscribers(
  { database }: Service,
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
      const found = database.collections.subscribers.find({ _id: { $in: keys.slice(i, i + 1_000) } })
      for await (const { id, email } of found.project<{ id: number; email: string }>({ id: 1, email: 1 }))
        known.push({ listId, id, email })
    }
  }
  return known
}

interface FarPage {
  path: string
  /** From 1; of a shorter list its last full page. */
  page: number
  token: string
  idOnFirst: number
  idOnFar: number
}

/** Follows the tokens to the far page, and checks that no record is missing or comes twice. */
async function walkTo(
  { url, authorization }: Service,
  { id, size }: { id: number; size: number },
): Promise<FarPage> {
  const page = Math.min(farPage, Math.floor(size / perPage))
  const path = `/mailing_lists/${id}/subscribers?per_page=`
  const skip = (page - 1) * perPage
  let skipped = 0
  let last = 0
  let token = ''
  let idOnFirst = 0
  for (;;) {
    const count = Math.min(maxPerPage, skip - skipped || perPage)
    const query = token === '' ? '' : `&page_token=${encodeURIComponent(token)}`
    const response = await fetch(`${url}${base}${path}${count}${query}`, { headers: { authorization } })
    const { data, next_page_token } = (await response.json()) as {
      data: { id: number }[]
      next_page_token: string | null
    }
    const [idOnFar = 0] = data.map((record) => record.id)
    idOnFirst ||= idOnFar
    for (const record of data) {
      if (record.id <= last) throw new Error(`subscriber ${record.id} comes after ${last}`)
      last = record.id
    }
    if (data.length !== count) throw new Error(`a page has ${data.length} instead of ${count} subscribers`)
    if (skipped === skip) return { path: `${path}${perPage}`, page, token, idOnFirst, idOnFar }
    skipped += count
    if (next_page_token === null) throw new Error(`no page follows after ${skipped} of ${size} subscribers`)
    token = next_page_token
  }
}
