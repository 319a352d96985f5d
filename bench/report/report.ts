import type { Machine } from '../machine.ts'
import type {
  Contender,
  Goal,
  MeasuredContender,
  NamedLatency,
  NamedTimelines,
  Outcome,
  Timeline,
} from '../scenario.ts'
import { ratios, summarize, type Ratios, type Summary } from '../statistics.ts'

/** One run, as `--json` writes it. Names have their units; a Spread is `{median, min, max}` over the rounds. */
export interface Report extends Particulars {
  /** Grows when a field changes its meaning or is removed. */
  format: 2
  /** When it ended, ISO 8601. */
  at: string
  took_seconds: number
  /** False when a contender's result, a reply or a count was wrong. */
  is_right: boolean
  goals: Goal[]
  contenders: ContenderReport[]
  /** The first contender against each other one. */
  comparisons: ({ of: string; to: string } & Ratios)[]
  latencies: NamedLatency[]
  /** Those of contenders are in their rounds. */
  timelines: NamedTimelines[]
  /** What the scenario found besides, as it names it. */
  result: Record<string, unknown>
}

/** What is known before the run. */
interface Particulars {
  benchmark: string
  summary: string
  /** Its options: rows, rounds, seed and the like. */
  work: Record<string, string | number>
  machine: Machine
  versions: Record<string, string>
  /** What it printed. */
  transcript: string[]
}

export interface ContenderReport extends Summary, Pick<Contender, 'name' | 'version' | 'note'> {
  settings: NonNullable<Contender['settings']>
  rounds: RoundReport[]
}

interface RoundReport {
  seconds: number
  client_us_per_row: number
  server_us_per_row: number
  is_right: boolean
  /** By process. */
  cpu_seconds: Record<string, number>
  timeline: Timeline | null
}

export function makeReport(
  { startedAt, ...particulars }: Particulars & { startedAt: number },
  outcome: Outcome,
): Report {
  const {
    mongodb,
    rows,
    isRight,
    contenders = [],
    result = {},
    goals = [],
    latencies = [],
    timelines = [],
  } = outcome
  const programs = contenders.flatMap(({ version }) => (version === undefined ? [] : [version.split(' ', 2)]))
  const [first, ...others] = contenders
  return {
    format: 2,
    ...particulars,
    at: new Date().toISOString(),
    took_seconds: Math.round((performance.now() - startedAt) / 1000),
    work: { ...(rows === undefined ? {} : { rows }), ...particulars.work },
    versions: {
      ...particulars.versions,
      'mongodb server': mongodb,
      ...(Object.fromEntries(programs) as Record<string, string>),
    },
    is_right: isRight,
    goals,
    contenders: contenders.map(reportContender),
    comparisons: others.flatMap(({ name, measured }) =>
      first === undefined ? [] : [{ of: first.name, to: name, ...ratios(first.measured, measured) }],
    ),
    latencies: [...contenders.flatMap(middleLatency), ...latencies],
    timelines,
    result,
  }
}

function reportContender(contender: MeasuredContender): ContenderReport {
  const { name, version, settings = {}, note, measured } = contender
  const rounds = measured.map((one) => ({
    seconds: one.seconds,
    client_us_per_row: one.clientMicroseconds,
    server_us_per_row: one.serverMicroseconds,
    is_right: one.isRight,
    cpu_seconds: mapValues(one.processes, ({ cpuSeconds }) => cpuSeconds),
    timeline: one.timeline,
  }))
  return { name, version, settings, note, ...summarize(measured), rounds }
}

const mapValues = <A, B>(record: Record<string, A>, map: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]))

/** Latencies of the round whose speed is in the middle: in all rounds together one slow minute would dominate. */
function middleLatency({ name, measured }: MeasuredContender): NamedLatency[] {
  const middle = [...measured].sort((a, b) => a.seconds - b.seconds)[Math.floor(measured.length / 2)]
  return middle?.latency === undefined ? [] : [{ name, ...middle.latency }]
}

/** The report with the numbers of its tables only: no samples, no distributions. */
export function withoutSamples(report: Report): Report {
  const contenders = report.contenders.map((one) => ({ ...one, rounds: [] }))
  // Tables show a comparison; what other scenarios found is in what they printed.
  const transcript = contenders.length === 0 ? report.transcript : []
  return { ...report, contenders, transcript, latencies: [], timelines: [], result: {} }
}

/** Measurements have four significant digits, six above 1,000; whole numbers stay. */
export function compactJson(report: Report): string {
  const round = (_: string, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value)
      ? Number(value.toPrecision(Math.abs(value) >= 1_000 ? 6 : 4))
      : value
  return `${JSON.stringify(report, round)}\n`
}
