import type { Compared } from '../compare.ts'
import type { Machine } from '../machine.ts'
import type { Goal, Measurement, NamedLatency, NamedTimelines, Outcome, Timeline } from '../scenario.ts'
import { ratios, summarize, type Ratios, type Spread } from '../statistics.ts'

/**
 * All that is known of one run of a benchmark: what `--json` writes, what pages are made from. Names have their units;
 * a Spread is `{median, least, most}` over the rounds.
 */
export interface Report {
  /** Grows when a field changes its meaning or goes. */
  format: 1
  benchmark: string
  summary: string
  /** The moment it ended, ISO 8601. */
  at: string
  took_seconds: number
  /** What it was told: rows, rounds, seed; for some also subscribers, connections, seconds. */
  work: Record<string, string | number>
  machine: Machine
  versions: Record<string, string>
  /** False: a contender's result, a reply or a count was wrong. */
  is_right: boolean
  /** What was to be reached, and whether it was. */
  goals: Goal[]
  /** Of comparisons; else empty. */
  contenders: ContenderReport[]
  /** The first contender in terms of each other one. */
  comparisons: ({ of: string; to: string } & Ratios)[]
  latencies: NamedLatency[]
  /** Of benchmarks with a way of their own, where they looked; comparisons have theirs in their rounds. */
  timelines?: NamedTimelines[]
  /** What a benchmark with a way of its own found out, as it names it. */
  result: Record<string, unknown>
  /** What it said while it ran. */
  transcript: string[]
}

export interface ContenderReport {
  name: string
  version?: string
  settings: Record<string, string | number | boolean>
  note?: string
  rows_per_second: Spread
  seconds: Spread
  /** CPU microseconds a row: all processes of the client; the server. */
  client_us_per_row: Spread
  server_us_per_row: Spread
  /** Highest resident memory in all rounds, by process; the server's is `mongod`. */
  peak_memory_mb: Record<string, number>
  rounds: RoundReport[]
}

export interface RoundReport {
  seconds: number
  client_us_per_row: number
  server_us_per_row: number
  is_right: boolean
  /** CPU seconds by process. */
  cpu_seconds: Record<string, number>
  /** Column by column: seconds since the beginning, rows done, and by process CPU seconds since then and resident MB. */
  timeline: Timeline | null
}

export interface Particulars {
  benchmark: string
  summary: string
  startedAt: number
  work: Record<string, string | number>
  machine: Machine
  versions: Record<string, string>
  transcript: string[]
}

export function reportOfComparison(particulars: Particulars, compared: Compared): Report {
  const { contenders, isRight, mongodb, rows } = compared
  const [first, ...others] = contenders
  // "mongoimport 100.9.4", of however many contenders.
  const foreign = contenders.flatMap(({ version }) => {
    const [name = '', ...number] = version?.split(' ') ?? []
    return name === '' ? [] : [[name, number.join(' ')]]
  })
  return {
    ...frameOf(particulars),
    work: { rows, ...particulars.work },
    versions: {
      ...particulars.versions,
      'mongodb server': mongodb,
      ...(Object.fromEntries(foreign) as Record<string, string>),
    },
    is_right: isRight,
    contenders: contenders.map(({ name, version, settings = {}, note, measured }) => {
      const { rowsPerSecond, seconds, clientMicroseconds, serverMicroseconds, peakMemoryMB } =
        summarize(measured)
      return {
        name,
        ...(version === undefined ? {} : { version }),
        settings,
        ...(note === undefined ? {} : { note }),
        rows_per_second: rowsPerSecond,
        seconds,
        client_us_per_row: clientMicroseconds,
        server_us_per_row: serverMicroseconds,
        peak_memory_mb: peakMemoryMB,
        rounds: measured.map(roundOf),
      }
    }),
    comparisons: others.map(({ name, measured }) => ({
      of: first!.name,
      to: name,
      ...ratios(first!.measured, measured),
    })),
    latencies: contenders.flatMap(({ name, measured }) => latencyOfRounds(name, measured)),
  }
}

export function reportOfStudy(particulars: Particulars, outcome: Outcome): Report {
  const { isRight, result, goals = [], latencies = [], timelines = [] } = outcome
  const { mongodb, ...own } = result
  return {
    ...frameOf(particulars),
    versions: {
      ...particulars.versions,
      ...(typeof mongodb === 'string' ? { 'mongodb server': mongodb } : {}),
    },
    is_right: isRight,
    goals,
    latencies,
    timelines,
    result: own,
  }
}

function frameOf({ benchmark, summary, startedAt, work, machine, versions, transcript }: Particulars) {
  const report: Report = {
    format: 1,
    benchmark,
    summary,
    at: new Date().toISOString(),
    took_seconds: Math.round((performance.now() - startedAt) / 1000),
    work,
    machine,
    versions,
    is_right: true,
    goals: [],
    contenders: [],
    comparisons: [],
    latencies: [],
    result: {},
    transcript,
  }
  return report
}

function roundOf(measured: Measurement): RoundReport {
  const { seconds, clientMicroseconds, serverMicroseconds, isRight, processes = {}, timeline } = measured
  return {
    seconds,
    client_us_per_row: clientMicroseconds,
    server_us_per_row: serverMicroseconds,
    is_right: isRight,
    cpu_seconds: Object.fromEntries(
      Object.entries(processes).map(([name, { cpuSeconds }]) => [name, cpuSeconds]),
    ),
    timeline: timeline ?? null,
  }
}

/** Of the round in the middle by speed: rounds aren't thrown together, one slow minute would be all that is seen. */
function latencyOfRounds(name: string, measured: Measurement[]): NamedLatency[] {
  const middle = [...measured].sort((a, b) => a.seconds - b.seconds)[Math.floor(measured.length / 2)]
  return middle?.latency === undefined ? [] : [{ name, ...middle.latency }]
}

/** Three significant digits say all that a measurement knows; whole numbers stay. */
export function compactJson(report: Report): string {
  const round = (_: string, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value)
      ? Number(value.toPrecision(Math.abs(value) >= 1_000 ? 6 : 4))
      : value
  return `${JSON.stringify(report, round)}\n`
}
