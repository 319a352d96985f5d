import { mkdir } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { Cannon, type Volley } from '../load/cannon.ts'
import { makeOperations, mayGrow, type Operation } from '../load/operations.ts'
import { RunningImport } from '../load/running-import.ts'
import { loadSubscribers, type LoadedSubscribers } from '../load/subscribers.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { alignColumns, describePeaks, two, whole, withRange } from '../report/text.ts'
import type { Goal, Latency, Options, Outcome, Scenario, Timeline } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { summarizeLatency, percentile, spread, type Spread } from '../statistics.ts'

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
      return await withService({ folder }, (service) => run(service, cannon, { ...options, folder }))
    } finally {
      cannon.stop()
    }
  },
}

/** A reply may take this many times as long while an import runs. */
const maxSlowdown = 4
const maxFarPageRatio = 1.5
const warmUpSeconds = 1
/** The goals are set for this number of subscribers. */
const goalSubscribers = 5_000_000

async function run(service: Service, cannon: Cannon, options: Options): Promise<Outcome> {
  const { say, seed, folder, connections, only } = options
  const [subscribers, ...more] = options.subscribers
  const load = async (count: number) => {
    const loaded = await loadSubscribers(service, { subscribers: count, seed, folder, say })
    say('taking samples, and following the big list page by page ...')
    const { operations: all, farPage } = await makeOperations(service, loaded, seed)
    const operations = all.filter(({ name }) => name.includes(only ?? ''))
    if (operations.length > 0) return { loaded, farPage, operations }
    const names = all.map(({ name }) => name).join('; ')
    throw new Error(`--only ${only}: no operation has that in its name; there are ${names}`)
  }
  const phase = async (
    title: string,
    plot: string,
    count: number,
    operations: Operation[],
    factor: number,
  ) => {
    say(`\n${connections} connections, ${title} (load average ${(loadavg()[0] ?? 0).toFixed(1)})`)
    const measured = await measurePhase(service, cannon, operations, options)
    const when = plot === 'during an import' ? ` ${plot}` : ''
    const goals = goalsFor(operations, measured.results, count, when, factor)
    return { plot, subscribers: count, ...measured, goals }
  }

  let data = await load(subscribers)
  const { operations, farPage } = data
  const quiet = await phase('no import', 'no import', subscribers, operations, 1)
  const phases = [quiet]
  const importRows = options.rows ?? Math.min(1_000_000, Math.ceil(subscribers / 5))
  const running = new RunningImport(service, data.loaded, importRows)
  await running.start()
  const title = `imports of ${whole(importRows)} rows`
  phases.push(await phase(title, 'during an import', subscribers, operations, maxSlowdown))
  const imported = await running.stop()
  say(`the imports did ${whole(imported.rows / imported.seconds)} rows/s`)
  for (const count of operations.some(mayGrow) ? more : []) {
    say('')
    data = await load(count)
    const title = `no import, ${whole(count)} subscribers`
    phases.push(await phase(title, 'more subscribers', count, data.operations.filter(mayGrow), 1))
  }

  const wrongCount = await wrongCounts(service, data.loaded)
  if (wrongCount !== null) say(`\nWRONG COUNTS: ${wrongCount}`)
  const results = phases.flatMap((one) => [...one.results.values()])
  for (const sentence of results.flatMap(({ wrong }) => wrong)) say(`WRONG REPLY: ${sentence}`)
  const compared = phases.length > 2 ? [{ ...quiet, plot: 'more subscribers' }] : []
  const named = [...phases, ...compared].flatMap(({ plot, subscribers: count, results }) => {
    const isMore = plot === 'more subscribers'
    return [...results]
      .filter(([name]) => !isMore || mayGrow({ name }))
      .map(([name, result]) => ({ name: isMore ? `${name} of ${whole(count)}` : name, plot, result }))
  })
  return {
    mongodb: await serverVersion(service.database.client),
    isRight:
      wrongCount === null && results.every(({ replies, wrongReplies }) => replies > 0 && wrongReplies === 0),
    result: {
      lists: data.loaded.lists.length,
      far_page: farPage,
      import_rows: importRows,
      import_rows_per_second: imported.rows / imported.seconds,
      phases: phases.map(({ plot, subscribers, results }) => ({
        plot,
        subscribers,
        operations: Object.fromEntries(
          [...results].map(([name, { latency: _, timelines: __, ...one }]) => [name, one]),
        ),
      })),
    },
    goals: phases.flatMap(({ goals }) => goals),
    latencies: named.map(({ name, plot, result }) => ({ name, plot, ...result.latency })),
    timelines: [
      ...phases.map(({ plot, subscribers, timeline }) => ({
        name: plot === 'more subscribers' ? `${whole(subscribers)} subscribers` : plot,
        rounds: [timeline],
      })),
      ...named.map(({ name, plot, result }) => ({ name, plot, of: 'requests', rounds: result.timelines })),
    ],
  }
}

/** The rounds of one operation. */
interface OperationResult {
  perSecond: Spread
  medianMs: Spread
  p95Ms: Spread
  p99Ms: Spread
  slowestMs: number
  /** CPU microseconds a request; the server's contain all that it did meanwhile. */
  controlPlaneMicroseconds: Spread
  mongodMicroseconds: Spread
  /** Over all rounds. */
  latency: Latency
  replies: number
  /** Missing replies count too. */
  wrongReplies: number
  /** The first of them. */
  wrong: string[]
  /** Replies over time, of each round. */
  timelines: Timeline[]
}

type MeasuredVolley = Volley & {
  controlPlaneMicroseconds: number
  mongodMicroseconds: number
  timeline: Timeline
}

async function measurePhase(service: Service, cannon: Cannon, operations: Operation[], options: Options) {
  const { database, processes } = service
  const { rounds, say } = options
  const volleys = new Map<string, MeasuredVolley[]>(operations.map(({ name }) => [name, []]))
  const { timeline, processes: used } = await measure(database.client, {
    processes,
    rows: 1,
    progress: () => 0,
    // Seldom, because a sample is a request too.
    sampleIntervalMs: 5_000,
    // Each round has all operations, so that a slow minute of the machine spreads over them.
    do: async () => {
      for (let round = 0; round <= rounds; round += 1)
        for (const operation of operations) {
          const volley = await measureVolley(service, cannon, operation, options, round === 0)
          if (round > 0) volleys.get(operation.name)?.push(volley)
        }
    },
  })
  const results = new Map([...volleys].map(([name, list]) => [name, summarizeVolleys(list)]))
  for (const line of tableLines(results)) say(line)
  const seconds = timeline.seconds.at(-1) ?? 0
  const cores = Object.entries(used).map(([name, { cpuSeconds }]) => `${name} ${two(cpuSeconds / seconds)}`)
  say(`cores in use: ${cores.join(', ')}`)
  const peaks = Object.entries(used).map(([name, { peakMemoryMB }]) => [name, peakMemoryMB] as const)
  say(`peak memory in MB: ${describePeaks(Object.fromEntries(peaks))}`)
  return { results, timeline: { ...timeline, rows: null } }
}

async function measureVolley(
  { url, authorization, database, processes }: Service,
  cannon: Cannon,
  operation: Operation,
  { connections, seconds }: Options,
  isWarmUp: boolean,
): Promise<MeasuredVolley> {
  const requests = operation.makeRequests()
  const controlPlane = processes.find(({ name }) => name === 'control plane')
  // Only before and after: each reading of its metrics costs it 1-2 ms.
  const before = await controlPlane?.usage()
  const { done, timeline, serverMicroseconds } = await measure(database.client, {
    processes: [],
    rows: () => cannon.replies,
    progress: () => cannon.replies,
    do: () =>
      cannon.fire({ url, authorization, connections, seconds: isWarmUp ? warmUpSeconds : seconds, requests }),
  })
  const used = ((await controlPlane?.usage())?.cpuSeconds ?? 0) - (before?.cpuSeconds ?? 0)
  return {
    ...done,
    controlPlaneMicroseconds: (used / done.milliseconds.length) * 1e6,
    mongodMicroseconds: serverMicroseconds,
    // CPU and memory are drawn for the whole phase.
    timeline: { ...timeline, cpuSeconds: {}, memoryMB: {} },
  }
}

function summarizeVolleys(volleys: MeasuredVolley[]): OperationResult {
  const sorted = volleys.map(({ milliseconds }) => Float64Array.from(milliseconds).sort())
  const at = (share: number) => spread(sorted.map((values) => percentile(values, share)))
  const all = volleys.flatMap(({ milliseconds }) => milliseconds)
  return {
    perSecond: spread(volleys.map(({ milliseconds, seconds }) => milliseconds.length / seconds)),
    medianMs: at(0.5),
    p95Ms: at(0.95),
    p99Ms: at(0.99),
    slowestMs: at(1).max,
    controlPlaneMicroseconds: spread(volleys.map((volley) => volley.controlPlaneMicroseconds)),
    mongodMicroseconds: spread(volleys.map((volley) => volley.mongodMicroseconds)),
    latency: summarizeLatency('a request', all),
    replies: all.length,
    wrongReplies: volleys.reduce((sum, { wrongReplies, errors }) => sum + wrongReplies + errors, 0),
    wrong: volleys.flatMap(({ wrong }) => wrong).slice(0, 3),
    timelines: volleys.map(({ timeline }) => timeline),
  }
}

function tableLines(results: Map<string, OperationResult>): string[] {
  const one = (value: number) => value.toFixed(1)
  return alignColumns([
    ['', 'requests/s', 'median ms', 'p95 ms', 'p99 ms', 'slowest', 'app us', 'mongod us', 'wrong'],
    ...[...results].map(([name, result]) => [
      name,
      withRange(result.perSecond, whole),
      one(result.medianMs.median),
      one(result.p95Ms.median),
      withRange(result.p99Ms, one),
      one(result.slowestMs),
      withRange(result.controlPlaneMicroseconds, whole),
      withRange(result.mongodMicroseconds, whole),
      String(result.wrongReplies),
    ]),
  ])
}

/** The 99th percentiles have bounds, and the far page is compared with the first, by their medians. */
function goalsFor(
  operations: Operation[],
  results: Map<string, OperationResult>,
  subscribers: number,
  when: string,
  factor: number,
): Goal[] {
  const setFor = subscribers < goalSubscribers ? `; the goal is set for ${whole(goalSubscribers)}` : ''
  const of = `(of ${whole(subscribers)} subscribers${setFor})`
  const goals: Goal[] = []
  const pages: { name: string; medianMs: Spread }[] = []
  for (const { name, goalMs } of operations) {
    const { p99Ms, medianMs } = results.get(name) ?? { p99Ms: spread([]), medianMs: spread([]) }
    if (goalMs === null) pages.push({ name, medianMs })
    else {
      const what = `${name}${when}: p99 ${p99Ms.median.toFixed(1)} ms, at most ${goalMs * factor} ${of}`
      goals.push({ what, isMet: p99Ms.median <= goalMs * factor })
    }
  }
  const [first, far] = pages
  if (first === undefined || far === undefined) return goals
  const ratio = far.medianMs.median / first.medianMs.median
  const what = `${far.name} in ${two(ratio)} times the time of page 1${when}, at most ${maxFarPageRatio} ${of}`
  return [...goals, { what, isMet: ratio <= maxFarPageRatio }]
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
  const wrong = subscriberStatuses
    .map((status) => ({ status, shown: counts[status], right: stored.get(status) ?? 0 }))
    .filter(({ shown, right }) => shown !== right)
  return wrong.length === 0
    ? null
    : wrong.map(({ status, shown, right }) => `${status}: ${shown} shown, ${right} stored`).join('; ')
}
