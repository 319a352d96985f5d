import { mkdir } from 'node:fs/promises'
import { subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { Cannon, type Volley } from '../load/cannon.ts'
import { makeOperations, mayGrow, type Operation } from '../load/operations.ts'
import { whileImporting } from '../load/running-import.ts'
import { loadSubscribers, type LoadedSubscribers } from '../load/subscribers.ts'
import { loadAverage } from '../machine.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { alignColumns, describePeaks, one, two, whole, withRange } from '../report/text.ts'
import type { Goal, Measured, Options, Outcome, Scenario } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { percentile, spread, summarize, summarizeLatency, type Spread } from '../statistics.ts'

/**
 * How long requests take on an organization with many subscribers, and while an import runs into the list that they
 * read and write. Each connection sends its next request when it has its last reply, so the service is never idle.
 */
export const requests: Scenario = {
  name: 'requests',
  summary:
    'requests about subscribers by 16 connections, without an import and while one runs; counts and pages of more subscribers',
  quick: ['--subscribers', '20000,40000', '--seconds', '1', '--rounds', '1'],
  full: ['--subscribers', '1000000,5000000,10000000'],
  async run(options) {
    const folder = options.data ?? options.folder
    await mkdir(folder, { recursive: true })
    const cannon = new Cannon()
    try {
      return await withService({ folder }, (service) => measureAll(service, cannon, { ...options, folder }))
    } finally {
      await cannon.stop()
    }
  },
}

/** A reply may take this many times as long while an import runs. */
const maxSlowdown = 4
/** The name of the contender in bare-handler.ts, which is measured as the control plane is. */
export const bareHandler = 'bare handler'
const maxFarPageRatio = 1.5
const duringImport = 'during an import'
const moreSubscribers = 'more subscribers'

async function measureAll(service: Service, cannon: Cannon, options: Options): Promise<Outcome> {
  const { say, seed, folder, connections, only } = options
  const [subscribers, ...more] = options.subscribers
  const load = async (count: number) => {
    const loaded = await loadSubscribers(service, { subscribers: count, seed, folder, say })
    say('taking samples, and following the big list page by page ...')
    const all = await makeOperations(service, loaded, seed)
    const operations = all.filter(({ name }) => name.includes(only))
    if (operations.length > 0) return { loaded, operations }
    const names = all.map(({ name }) => name).join('; ')
    throw new Error(`--only ${only}: no operation has that in its name; there are ${names}`)
  }
  const phases: Phase[] = []
  const measurePhase = async (plot: string, title: string, count: number, operations: Operation[]) => {
    say(`\n${connections} connections, ${title} (load average ${one(loadAverage())})`)
    const results = await measureOperations(service, cannon, operations, options)
    for (const line of describeResults(results)) say(line)
    phases.push({ plot, subscribers: count, results })
  }

  let { loaded, operations } = await load(subscribers)
  await measurePhase('no import', 'no import', subscribers, operations)
  const importRows = options.rows ?? Math.min(1_000_000, Math.ceil(subscribers / 5))
  const importRate = await whileImporting(service, loaded, importRows, () =>
    measurePhase(duringImport, `imports of ${whole(importRows)} rows`, subscribers, operations),
  )
  say(`the imports did ${whole(importRate)} rows/s`)
  for (const count of operations.some(mayGrow) ? more : []) {
    say('')
    ;({ loaded, operations } = await load(count))
    const title = `no import, ${whole(count)} subscribers`
    await measurePhase(moreSubscribers, title, count, operations.filter(mayGrow))
  }

  const wrongCount = await wrongCounts(service, loaded)
  if (wrongCount !== null) say(`\nWRONG COUNTS: ${wrongCount}`)
  const results = phases.flatMap((phase) => phase.results)
  for (const sentence of results.flatMap(({ volleys }) => volleys.flatMap(({ wrong }) => wrong)).slice(0, 9))
    say(`WRONG REPLY: ${sentence}`)
  // The first number of subscribers is part of the comparison with more.
  const quiet = { ...phases[0]!, plot: moreSubscribers }
  const drawn = [...phases, ...(more.length > 0 ? [quiet] : [])].flatMap(
    ({ plot, subscribers: count, results }) =>
      results
        .filter(({ name }) => plot !== moreSubscribers || mayGrow({ name }))
        .map(({ name, volleys }) => ({
          name: plot === moreSubscribers ? `${name} of ${whole(count)}` : name,
          plot,
          volleys,
        })),
  )
  return {
    mongodb: await serverVersion(service.database.client),
    is_right: wrongCount === null && results.every(({ rows, wrong }) => rows > 0 && wrong === 0),
    result: {
      import_rows: importRows,
      import_rows_per_second: importRate,
      phases: phases.map((phase) => ({
        ...phase,
        results: phase.results.map(({ volleys: _, goalMs: __, ...figures }) => figures),
      })),
    },
    goals: phases.flatMap(goalsOf),
    latencies: drawn.map(({ name, plot, volleys }) => ({
      name,
      plot,
      ...summarizeLatency(
        'a request',
        volleys.flatMap(({ milliseconds }) => milliseconds),
      ),
    })),
    timelines: drawn.map(({ name, plot, volleys }) => ({
      name,
      plot,
      of: 'requests',
      // CPU and memory of so many operations would be a tangle.
      rounds: volleys.map(({ timeline }) => ({ ...timeline, cpu_seconds: {}, memory_mb: {} })),
    })),
  }
}

interface Phase {
  plot: string
  subscribers: number
  results: OperationResult[]
}

export interface OperationResult extends Pick<Operation, 'name' | 'goalMs'> {
  rows: number
  per_second: Spread
  median_ms: Spread
  p95_ms: Spread
  p99_ms: Spread
  slowest_ms: number
  /** CPU microseconds a request; the server's contain all that it did meanwhile. */
  app_us: Spread
  mongod_us: Spread
  /** Missing replies count too. */
  wrong: number
  volleys: (Measured & Volley)[]
}

/** Each round has all operations, every other one backwards: a slow minute of the machine spreads over them. */
export async function measureOperations(
  service: Service,
  cannon: Cannon,
  operations: Operation[],
  { rounds, connections, seconds: measuredSeconds }: Options,
): Promise<OperationResult[]> {
  const all = operations.map((operation) => ({ operation, volleys: new Array<Measured & Volley>() }))
  for (let round = 0; round <= rounds; round += 1)
    for (const { operation, volleys } of round % 2 === 0 ? all : all.toReversed()) {
      const { url, processes } = operation.at ?? service
      const { authorization, database } = service
      const seconds = round === 0 ? 1 : measuredSeconds
      const requests = operation.makeRequests()
      const { done, ...measured } = await measure(database.client, {
        processes,
        rows: () => cannon.replies,
        progress: () => cannon.replies,
        // Seldom, because a sample is a request too.
        sampleIntervalMs: 500,
        do: () => cannon.fire({ url, authorization, connections, seconds, requests }),
      })
      if (round > 0) volleys.push({ ...measured, ...done })
    }
  return all.map(({ operation: { name, goalMs }, volleys }) => {
    const over = (pick: (volley: Measured & Volley) => number) => spread(volleys.map(pick))
    const at = (share: number) => over(({ milliseconds }) => percentile(milliseconds, share))
    const app = ({ processes, rows }: Measured) =>
      ((processes['control plane'] ?? processes[bareHandler])!.cpu_seconds / rows) * 1e6
    return {
      name,
      goalMs,
      volleys,
      rows: volleys.reduce((sum, { rows }) => sum + rows, 0),
      per_second: over(({ rows, seconds }) => rows / seconds),
      median_ms: at(0.5),
      p95_ms: at(0.95),
      p99_ms: at(0.99),
      slowest_ms: at(1).max,
      app_us: over(app),
      mongod_us: over((volley) => volley.server_us_per_row),
      wrong: volleys.reduce((sum, { wrongReplies }) => sum + wrongReplies, 0),
    }
  })
}

export function describeResults(results: OperationResult[]): string[] {
  const volleys = results.flatMap((result) => result.volleys)
  const seconds = volleys.reduce((sum, volley) => sum + volley.seconds, 0)
  const cores = Object.keys(volleys[0]?.processes ?? {}).map((name) => {
    const used = volleys.reduce((sum, { processes }) => sum + (processes[name]?.cpu_seconds ?? 0), 0)
    return `${name} ${two(used / seconds)}`
  })
  const heads = 'requests/s,median ms,p95 ms,p99 ms,slowest,app us,mongod us,wrong'
  const rows = results.map((result) => [
    result.name,
    withRange(result.per_second, whole),
    one(result.median_ms.median),
    one(result.p95_ms.median),
    withRange(result.p99_ms, one),
    one(result.slowest_ms),
    withRange(result.app_us, whole),
    withRange(result.mongod_us, whole),
    String(result.wrong),
  ])
  return [
    ...alignColumns([['', ...heads.split(',')], ...rows]),
    `cores in use: ${cores.join(', ')}`,
    `peak memory in MB: ${describePeaks(summarize(volleys).peak_memory_mb)}`,
  ]
}

/** The 99th percentiles have bounds, and the far page is compared with the first, by their medians. */
function goalsOf({ plot, subscribers, results }: Phase): Goal[] {
  const factor = plot === duringImport ? maxSlowdown : 1
  const when = plot === duringImport ? ` ${plot}` : ''
  const about = { set_for: 5_000_000, size: subscribers }
  const goals = results.flatMap(({ name, goalMs, p99_ms }): Goal[] => {
    const work = `${name}${when}: p99`
    return goalMs === null
      ? []
      : [{ work, max: goalMs * factor, by_median: true, unit: ' ms', measured: p99_ms, ...about }]
  })
  const [first, far] = results.filter(({ goalMs }) => goalMs === null)
  if (first === undefined || far === undefined) return goals
  const ratio = spread([far.median_ms.median / first.median_ms.median])
  const work = `${far.name}${when}`
  return [...goals, { work, against: first.name, max: maxFarPageRatio, unit: 'x', measured: ratio, ...about }]
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
