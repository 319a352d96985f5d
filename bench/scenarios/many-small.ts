import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiClient } from '../../control-plane/cli/api-client.ts'
import { wrongCounts, wrongImport } from '../check-import.ts'
import { onServices, type MeasuredRounds } from '../compare.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport, uploaded, type List } from '../imports.ts'
import { measure } from '../measure.ts'
import type { Goal } from '../scenario.ts'
import type { Service } from '../service.ts'
import { percentile, spread } from '../statistics.ts'

export const smallRows = 500
/** The goals are for this number of rows in all. */
const fullRows = 250_000
const importsOfOrganization = 5
const importsOfOneList = 100
/** Of each import that is due with all others. */
const dueRows = 100
/** The measurement begins within this time. */
const startMs = 300
const lanes = 16

interface Prepared {
  rows: number
  /** Creates the imports, and waits for their end. */
  run: () => Promise<StartedImport[]>
  /** Milliseconds that `run` measures itself, by name. */
  times?: Record<string, number[]>
}

interface StartedImport {
  id: number
  list: List
  rows: number
  /** What its list has at its end; null where the emails say all. */
  file: SubscriberFile | null
}

const kinds: Record<string, (service: Service, rows: number, seed: number) => Promise<Prepared>> = {
  async 'many at once'(service, rows, seed) {
    const count = Math.ceil(rows / smallRows)
    const organizations = await createOrganizations(service.client, count / importsOfOrganization)
    const prepared = await inLanes(lanes, count, (i) =>
      prepareSmallImport(service.client, seed + i, {
        organizationId: organizations[i % organizations.length]!,
      }),
    )
    const run = async () => {
      const started = await inLanes(lanes, count, (i) => prepared[i]!())
      await untilEnded(service, started)
      return started
    }
    return { rows: count * smallRows, run }
  },

  async 'one import'({ client, place }, rows, seed) {
    const file = new SubscriberFile({ rows, seed, defects: false })
    await place(file.bytes(), 'rows.csv')
    const list = await createList(client, 'One')
    const run = async () => {
      const id = await startImport(client, list.listId, { file_source: uploaded('rows.csv') })
      await pollImport(client, id)
      return [{ id, list, rows, file }]
    }
    return { rows, run }
  },

  async 'one after the other'({ client }, rows, seed) {
    const count = Math.ceil(rows / 1_250)
    const seen: number[] = []
    const prepared = await inLanes(lanes, count, (i) => prepareSmallImport(client, seed + i, { rows: 100 }))
    const run = () =>
      inLanes(1, count, async (i) => {
        const startedAt = performance.now()
        const started = await prepared[i]!()
        const path = `/subscriber_imports/${started.id}/events`
        // The stream ends after the import.
        for await (const _ of client.events(path, new AbortController().signal, () => undefined)) continue
        seen.push(performance.now() - startedAt)
        return started
      })
    return { rows: count * 100, run, times: { 'from the request to the end in its stream': seen } }
  },

  async 'on one list'(service) {
    const list = await createList(service.client, 'One', { fields: [] })
    const run = async () => {
      const started = await inLanes(1, importsOfOneList, async (i) => ({
        id: await createInline(service.client, list, [`row${i}@example.com`]),
        ...{ list, rows: 1, file: null },
      }))
      await untilEnded(service, started)
      return started
    }
    return { rows: importsOfOneList, run }
  },

  async 'due at one moment'(service, rows) {
    const count = Math.ceil(rows / 125)
    const organizations = await createOrganizations(service.client, count / 40)
    const dueAt = new Date(Date.now() + 10_000 + count * 20)
    const emails = Array.from({ length: dueRows }, (_, row) => `row${row}@example.com`)
    const started = await inLanes(lanes, count, async (i) => {
      const organizationId = organizations[i % organizations.length]!
      const list = await createList(service.client, `Due ${i}`, { organizationId, fields: [] })
      return { id: await createInline(service.client, list, emails, dueAt), list, rows: dueRows, file: null }
    })
    const waitMs = dueAt.getTime() - Date.now() - startMs
    if (waitMs < 0) throw new Error('the imports were due before all of them were created: take fewer rows')
    await sleep(waitMs)
    const run = async () => {
      await sleep(dueAt.getTime() - Date.now())
      await untilEnded(service, started)
      return started
    }
    return { rows: count * dueRows, run }
  },
}

/** The everyday load of an API client: what imports cost beside their rows. */
export const manySmall = onServices({
  name: 'many-small',
  summary: `500 imports of ${smallRows} rows of 100 organizations against one import of as many rows; then 200 imports of 100 rows, one after the other; 100 of one row on one list; and 2,000 that are due at one moment`,
  quick: ['--rows', '10000', '--rounds', '2'],
  defaultRows: fullRows,
  kinds: Object.keys(kinds),
  timesOf: 'an import',
  goals,
  prepare: () => Promise.resolve(null),
  async measure(service, _, { rows, seed, kind }) {
    // New processes compile their code during the first imports, so these aren't measured.
    const warmUp = await inLanes(lanes, lanes, (i) => prepareSmallImport(service.client, seed + i))
    await untilEnded(service, await inLanes(lanes, lanes, (i) => warmUp[i]!()))
    const { run, times, ...prepared } = await kinds[kind]!(service, rows, seed)
    const { done, ...measured } = await measure(service.database.client, {
      // The first two do the same work; only they are compared.
      processes: ['many at once', 'one import'].includes(kind) ? service.processes : [],
      rows: prepared.rows,
      do: run,
    })
    const { milliseconds, wrong } = await checkSmallImports(service, done)
    return { ...measured, times: times ?? { 'from begins_at to finished_at': milliseconds }, wrong }
  },
})

/** None beside another tree, which is what is compared then. */
function goals({ contenders, comparisons }: MeasuredRounds): Goal[] {
  const named = (kind: string) => contenders.find(({ name }) => name === kind)!
  const toOneImport = comparisons.find(({ to }) => to === 'one import')
  if (contenders.length > Object.keys(kinds).length || toOneImport === undefined) return []
  const timesOfRounds = (share: number) =>
    spread(
      named('one after the other').rounds.map(({ times = {} }) =>
        percentile(Object.values(times).flat(), share),
      ),
    )
  const atOnce = '500 imports of 500 rows'
  const alone = 'an import of 100 rows'
  const goals: Goal[] = [
    { work: atOnce, max: 5, unit: ' s', measured: named('many at once').seconds },
    {
      ...{ work: atOnce, against: 'one import of as many rows' },
      ...{ min: 0.5, unit: 'x', measured: toOneImport.speed },
    },
    {
      ...{ work: '100 imports of one row on one list', max: 5, unit: ' s' },
      measured: named('on one list').seconds,
    },
    { work: `${alone}: median`, max: 100, unit: ' ms', measured: timesOfRounds(0.5) },
    { work: `${alone}: p99`, max: 250, unit: ' ms', measured: timesOfRounds(0.99) },
  ]
  return goals.map((goal) => ({ ...goal, set_for: fullRows }))
}

/**
 * The times from `begins_at` to `finished_at`, and the first wrong result: of counts and the number of subscribers of all
 * imports, and of a hundred the subscribers themselves.
 */
export async function checkSmallImports(service: Service, imports: readonly StartedImport[]) {
  const { client, database } = service
  const milliseconds: number[] = []
  const rowsOfLists = new Map<number, number>()
  const step = Math.ceil(imports.length / 100)
  for (const [i, { id, list, rows, file }] of imports.entries()) {
    const view = await pollImport(client, id)
    const expected = { added: rows }
    const wrong =
      file !== null && i % step === 0
        ? await wrongImport(service, { view, list, expected, leaves: file })
        : wrongCounts(view, expected)
    if (wrong !== null) return { milliseconds, wrong }
    rowsOfLists.set(list.listId, (rowsOfLists.get(list.listId) ?? 0) + rows)
    milliseconds.push((await importSeconds(database, id)) * 1000)
  }
  for (const [listId, rows] of rowsOfLists) {
    const stored = await database.collections.subscribers.countDocuments({ mailing_list_id: listId })
    if (stored !== rows) return { milliseconds, wrong: `a list has ${stored} subscribers instead of ${rows}` }
  }
  return { milliseconds, wrong: null }
}

/** Resolves to a function that creates an import of a new list, by default of a new organization. */
export async function prepareSmallImport(
  client: ApiClient,
  seed: number,
  { organizationId, rows = smallRows }: { organizationId?: number; rows?: number } = {},
): Promise<() => Promise<StartedImport>> {
  const file = new SubscriberFile({ rows, seed, defects: false })
  const list = await createList(client, `Small ${seed}`, {
    organizationId: organizationId ?? (await createOrganizations(client, 1))[0]!,
  })
  const source = { type: 'json', content: [...file.text()].join('') }
  return async () => ({
    id: await startImport(client, list.listId, { file_source: source }),
    list,
    rows,
    file,
  })
}

const createOrganizations = (client: ApiClient, count: number): Promise<number[]> =>
  inLanes(lanes, Math.ceil(count), async () => {
    const body = { organization: { name: 'Small' } }
    return (await client.post<{ id: number }>('/organizations', body)).id
  })

const createInline = (client: ApiClient, { listId }: List, emails: string[], beginsAt?: Date) =>
  startImport(client, listId, {
    column_mapping: ['email'],
    file_source: { type: 'json', content: ['email', ...emails].join('\n') },
    ...(beginsAt === undefined ? {} : { begins_at: beginsAt.toISOString() }),
  })

/**
 * By the database, because polls over the API would be part of what is measured. Imports before the first one that is
 * open aren't read again.
 */
async function untilEnded({ database }: Service, imports: readonly StartedImport[]): Promise<void> {
  let ids = imports.map(({ id }) => id)
  for (;;) {
    const open = { _id: { $in: ids }, finished_at: null }
    const first = await database.collections.imports.findOne(open, {
      projection: { _id: 1 },
      sort: { _id: 1 },
    })
    if (first === null) return
    ids = ids.filter((id) => id >= first._id)
    await sleep(50)
  }
}

/** Does `count` works, up to `laneCount` at once; resolves to their results in the order of their ends. */
async function inLanes<T>(laneCount: number, count: number, work: (i: number) => Promise<T>): Promise<T[]> {
  const done: T[] = []
  let next = 0
  const lane = async () => {
    while (next < count) done.push(await work((next += 1) - 1))
  }
  await Promise.all(Array.from({ length: laneCount }, lane))
  return done
}
