import path from 'node:path'
import { subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { Cannon, type Volley } from '../load/cannon.ts'
import { makeOperations, mayGrow, type Operation } from '../load/operations.ts'
import { whileImporting } from '../load/running-import.ts'
import { loadSubscribers, type LoadedSubscribers } from '../load/subscribers.ts'
import { loadAverage } from '../machine.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { childProcesses } from '../processes.ts'
import { startProgram } from '../program.ts'
import { alignColumns, describePeaks, one, whole, withRange } from '../report/text.ts'
import { roundOrder } from '../round-order.ts'
import type { Goal, Measured, Options, Outcome, Scenario } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { percentile, spread, summarize, summarizeLatency, type Spread } from '../statistics.ts'

/**
 * How long requests take on an organization with many subscribers, and while an import runs into the list that they
 * read and write. Each connection sends its next request when it has its last reply, so the service is never idle, and
 * times are those of full load. So they are compared with those of a bare handler on the same database: Express and the
 * driver with the reads and writes that the service can't do without.
 */
export const requests: Scenario = {
  name: 'requests',
  summary:
    'requests about subscribers by 128, 16 and 1 connections, without an import and while one runs, against Express and the driver with the same reads and writes; counts and pages of more subscribers',
  quick: ['--subscribers', '20000,40000', '--seconds', '1', '--rounds', '1'],
  full: ['--subscribers', '1000000,5000000,10000000', '--rounds', '3'],
  async run(options) {
    const { folder, tree } = options
    const cannon = new Cannon()
    const measureWith = (service: Service, rival: Rival) => measureAll(service, rival, { ...options, cannon })
    try {
      return await withService({ folder }, (service) => {
        if (tree === null) return withBareHandler(service, (rival) => measureWith(service, rival))
        const mongodb = { uri: service.mongodbUri, database: 'other' }
        return withService({ folder: path.join(folder, 'other'), tree, mongodb }, (theirs) =>
          measureWith(service, otherTree(theirs, options)),
        )
      })
    } finally {
      await cannon.stop()
    }
  },
}

/** Whose requests are compared with those of the service. */
interface Rival {
  name: string
  /** By the name of the service's operation. Called when the service's subscribers are loaded. */
  makeOperations: (own: Operation[]) => Promise<Map<string, Operation>>
}

async function withBareHandler<T>(service: Service, work: (rival: Rival) => Promise<T>): Promise<T> {
  const handler = startProgram<object, { url?: string }>(new URL('../peers/bare-handler.ts', import.meta.url))
  await handler.reply()
  try {
    return await work({
      name: 'bare handler',
      async makeOperations(own) {
        handler.send({ uri: service.mongodbUri, name: service.database.db.databaseName })
        const { url = '' } = await handler.reply()
        const at = { url, processes: [await childProcesses('bare handler', handler.pids)] }
        return new Map(own.filter(({ name }) => name in minShares).map((one) => [one.name, { ...one, at }]))
      },
    })
  } finally {
    await handler.end()
  }
}

const otherTree = (service: Service, { subscribers, seed, say }: Options): Rival => ({
  name: 'other tree',
  async makeOperations() {
    const loaded = await loadSubscribers(service, { subscribers: subscribers[0], seed, say })
    const at = { url: service.url, processes: [service.measured('control plane')] }
    return new Map((await makeOperations(service, loaded, seed)).map((one) => [one.name, { ...one, at }]))
  },
})

/** Requests a second of each operation, as a share of the bare handler's. */
const minShares: Record<string, number> = {
  'read by id': 0.9,
  'find by email, in a list': 0.9,
  create: 0.7,
  'update of values': 0.7,
  'change of status': 0.7,
  counts: 0.8,
}
/** Of all rounds together, times the bare handler's. */
const maxP99Ratio = 1.5
const maxFarPageRatio = 1.5
const withoutImport = 'no import'
/**
 * The most first: a service that was idle while another one was loaded has lost compiled code, and compiles it again. In
 * the other order, with a second of warm-up, it answered 0.90 of what its copy did by 16 connections.
 */
const connectionsWithoutImport = [128, 16, 1]
/** While an import runs, and with more subscribers. */
const usualConnections = 16

type Setup = Options & { cannon: Cannon }

async function measureAll(service: Service, rival: Rival, options: Setup): Promise<Outcome> {
  const { say, seed, only } = options
  const [subscribers, ...more] = options.subscribers
  const phases: Phase[] = []
  const measurePhase = async (about: string, operations: Operation[], connections = usualConnections) => {
    const title = `${connections} connection${connections === 1 ? '' : 's'}, ${about}`
    say(`\n${title} (load average ${one(loadAverage())})`)
    const results = await measureOperations(service, operations, { ...options, connections })
    for (const line of describeResults(results)) say(line)
    const hasGoals = options.tree === null && about === withoutImport && connections > 1
    phases.push({ title, hasGoals, results })
  }
  const load = async (count: number, before?: LoadedSubscribers) => {
    const loaded = await loadSubscribers(service, { subscribers: count, seed, say }, before)
    say('taking samples, and following the big list page by page ...')
    const all = await makeOperations(service, loaded, seed)
    return { loaded, operations: all.filter(({ name }) => name.includes(only)) }
  }

  let { loaded, operations } = await load(subscribers)
  const rivals = await rival.makeOperations(operations)
  const both = operations.flatMap((own): Operation[] => {
    const other = rivals.get(own.name)
    return other === undefined ? [own] : [own, { ...other, name: `${own.name}, ${rival.name}` }]
  })
  for (const by of connectionsWithoutImport) await measurePhase(withoutImport, both, by)
  const importRows = options.rows ?? Math.min(1_000_000, Math.ceil(subscribers / 5))
  const importRate = await whileImporting(service, loaded, importRows, () =>
    measurePhase(`imports of ${whole(importRows)} rows`, both),
  )
  say(`the imports did ${whole(importRate)} rows/s`)
  for (const count of operations.some(mayGrow) ? more : []) {
    say('')
    ;({ loaded, operations } = await load(count, loaded))
    await measurePhase(`${whole(count)} subscribers`, operations.filter(mayGrow))
  }

  const wrongCount = await wrongCounts(service, loaded)
  if (wrongCount !== null) say(`\nWRONG COUNTS: ${wrongCount}`)
  const results = phases.flatMap((phase) => phase.results)
  const wrongReplies = results.flatMap(({ volleys }) => volleys.flatMap(({ wrong }) => wrong))
  for (const sentence of wrongReplies.slice(0, 9)) say(`WRONG REPLY: ${sentence}`)
  return {
    mongodb: await serverVersion(service.database.client),
    is_right: wrongCount === null && results.every(({ rows, wrong }) => rows > 0 && wrong === 0),
    result: {
      import_rows: importRows,
      import_rows_per_second: importRate,
      phases: phases.map((phase) => ({
        ...phase,
        results: phase.results.map(({ volleys: _, milliseconds: __, ...figures }) => figures),
      })),
    },
    goals: withHeadline(phases.flatMap((phase) => goalsOf(phase, rival.name))),
    latencies: phases.flatMap(({ title, results: measured }) =>
      measured.map(({ name, milliseconds }) => ({
        ...{ name, plot: title },
        ...summarizeLatency('a request', milliseconds),
      })),
    ),
  }
}

interface Phase {
  title: string
  /** One connection alone waits for round trips, of which the service makes more; imports take from both. */
  hasGoals: boolean
  results: OperationResult[]
}

interface OperationResult {
  name: string
  rows: number
  per_second: Spread
  /** Of the requests of all rounds together. */
  median_ms: number
  p95_ms: number
  p99_ms: number
  slowest_ms: number
  /** CPU microseconds a request; the server's contain all that it did meanwhile. */
  app_us: Spread
  mongod_us: Spread
  /** Missing replies count too. */
  wrong: number
  volleys: (Measured & Volley)[]
  milliseconds: number[]
}

/**
 * Each round has all operations, in another order: a slow minute of the machine spreads over them. A round before them
 * warms up, and doesn't count.
 */
async function measureOperations(
  service: Service,
  operations: Operation[],
  { cannon, rounds, connections, seconds }: Setup & { connections: number },
): Promise<OperationResult[]> {
  const all = operations.map((operation) => ({ operation, volleys: new Array<Measured & Volley>() }))
  for (let round = 0; round <= rounds; round += 1)
    for (const { operation, volleys } of roundOrder(all, round)) {
      const { url, processes } = operation.at ?? {
        ...service,
        processes: [service.measured('control plane')],
      }
      const { authorization, database } = service
      const sent = operation.makeRequests()
      const { done, ...measured } = await measure(database.client, {
        processes,
        rows: () => cannon.replies,
        progress: () => cannon.replies,
        // Seldom, because a sample is a request too.
        sampleIntervalMs: 500,
        do: () => cannon.fire({ url, authorization, connections, seconds, requests: sent }),
      })
      if (round > 0) volleys.push({ ...measured, ...done })
    }
  return all.map(({ operation: { name }, volleys }) => {
    const over = (pick: (volley: Measured & Volley) => number) => spread(volleys.map(pick))
    const milliseconds = volleys.flatMap((volley) => volley.milliseconds)
    return {
      name,
      volleys,
      milliseconds,
      rows: volleys.reduce((sum, { rows }) => sum + rows, 0),
      per_second: over(({ rows, seconds }) => rows / seconds),
      median_ms: percentile(milliseconds, 0.5),
      p95_ms: percentile(milliseconds, 0.95),
      p99_ms: percentile(milliseconds, 0.99),
      slowest_ms: percentile(milliseconds, 1),
      app_us: over((volley) => volley.client_us_per_row),
      mongod_us: over((volley) => volley.server_us_per_row),
      wrong: volleys.reduce((sum, { wrongReplies }) => sum + wrongReplies, 0),
    }
  })
}

function describeResults(results: OperationResult[]): string[] {
  const heads = 'requests/s,median ms,p95 ms,p99 ms,slowest,app us,mongod us,wrong'
  const rows = results.map((result) => [
    result.name,
    withRange(result.per_second, whole),
    ...[result.median_ms, result.p95_ms, result.p99_ms, result.slowest_ms].map(one),
    withRange(result.app_us, whole),
    withRange(result.mongod_us, whole),
    String(result.wrong),
  ])
  const peaks = summarize(results.flatMap(({ volleys }) => volleys)).peak_memory_mb
  return [...alignColumns([['', ...heads.split(',')], ...rows]), `peak memory in MB: ${describePeaks(peaks)}`]
}

/** Each operation against the rival's, and the far page against the first, by their medians. */
function goalsOf({ title, hasGoals, results }: Phase, rival: string): Goal[] {
  const find = (name: string) => results.find((result) => result.name === name)
  const goals = results.flatMap((ours): Goal[] => {
    const theirs = find(`${ours.name}, ${rival}`)
    if (theirs === undefined) return []
    const inRounds = (compare: (own: Measured, other: Measured) => number) =>
      spread(ours.volleys.map((volley, round) => compare(volley, theirs.volleys[round]!)))
    const perSecond = ({ rows, seconds }: Measured) => rows / seconds
    const cpu = (one: Measured) => one.client_us_per_row + one.server_us_per_row
    const about = { work: `${ours.name}, ${title}`, against: rival, unit: 'x' }
    const show = (result: OperationResult) => `${whole(result.per_second.median)} requests/s`
    const min = hasGoals ? minShares[ours.name] : undefined
    return [
      {
        ...about,
        ...(min === undefined ? {} : { min }),
        measured: inRounds((own, other) => perSecond(own) / perSecond(other)),
        headline: { we: show(ours), peer: `${rival}: ${show(theirs)}` },
      },
      {
        ...about,
        work: `${about.work}: p99 (${one(ours.p99_ms)} ms)`,
        ...(min === undefined ? {} : { max: maxP99Ratio }),
        measured: spread([ours.p99_ms / theirs.p99_ms]),
      },
      {
        ...about,
        work: `${about.work}: CPU time`,
        measured: inRounds((own, other) => cpu(own) / cpu(other)),
      },
    ]
  })
  const [first, far] = results.filter(({ name }) => /^page .*\d(?: by token)?$/.test(name))
  if (first === undefined || far === undefined) return goals
  const measured = spread([far.median_ms / first.median_ms])
  return [
    ...goals,
    { work: `${far.name}, ${title}`, against: first.name, max: maxFarPageRatio, unit: 'x', measured },
  ]
}

/** The first table has the operation that is the farthest behind its goal with the usual number of connections. */
function withHeadline(goals: Goal[]): Goal[] {
  const share = ({ measured, min = 1 }: Goal) => measured!.median / min
  const candidates = goals.filter(
    ({ headline, work }) => headline && work.includes('16 connections, no import'),
  )
  const worst = candidates.toSorted((a, b) => share(a) - share(b))[0]
  return goals.map(({ headline, ...goal }, i) =>
    goals[i] === worst && headline ? { ...goal, headline } : goal,
  )
}

/** What the API counts, against a count of the subscribers. */
async function wrongCounts(
  { client, database }: Service,
  { lists }: LoadedSubscribers,
): Promise<string | null> {
  const { counts } = await client.get<{ counts: Record<string, number> }>('/subscriber_counts')
  const grouped = await database.collections.subscribers
    .aggregate<{ _id: string; count: number }>([{ $group: { _id: '$status', count: { $sum: 1 } } }])
    .toArray()
  const stored = new Map(grouped.map(({ _id, count }) => [_id, count]))
  const loaded = lists.reduce((sum, { size }) => sum + size, 0)
  const total = grouped.reduce((sum, { count }) => sum + count, 0)
  if (total < loaded) return `${total} subscribers are stored, ${loaded} were loaded`
  const wrong = subscriberStatuses.find((status) => counts[status] !== (stored.get(status) ?? 0))
  return wrong === undefined ? null : `${wrong}: ${counts[wrong]} shown, ${stored.get(wrong) ?? 0} stored`
}
