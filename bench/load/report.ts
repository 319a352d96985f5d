import type { Latency } from '../scenario.ts'
import { whole, withRange } from '../report/text.ts'
import { latencyOf, spread, type Spread } from '../statistics.ts'
import type { Volley } from './cannon.ts'

export interface MeasuredVolley extends Volley {
  /** What the service used meanwhile. */
  cpuSeconds: { controlPlane: number; mongodb: number }
}

/** What the rounds of one kind of request came to; milliseconds, each with its spread over the rounds. */
export interface RequestTimes {
  perSecond: Spread
  medianMs: Spread
  p95Ms: Spread
  p99Ms: Spread
  slowestMs: number
  /** Over all rounds. */
  latency: Latency
  replies: number
  wrong: string[]
  wrongReplies: number
  errors: number
}

export interface OperationResult extends RequestTimes {
  /** CPU microseconds a request; the database's hold all that it did meanwhile. */
  controlPlaneMicroseconds: Spread
  mongodbMicroseconds: Spread
}

export function resultOf(volleys: MeasuredVolley[]): OperationResult {
  const cpu = (part: 'controlPlane' | 'mongodb') =>
    spread(volleys.map(({ cpuSeconds, milliseconds }) => (cpuSeconds[part] / milliseconds.length) * 1e6))
  return {
    ...timesOf(volleys),
    controlPlaneMicroseconds: cpu('controlPlane'),
    mongodbMicroseconds: cpu('mongodb'),
  }
}

export function timesOf(volleys: Volley[]): RequestTimes {
  const sorted = volleys.map(({ milliseconds }) => Float64Array.from(milliseconds).sort())
  const at = (part: number) => spread(sorted.map((values) => percentile(values, part)))
  return {
    perSecond: spread(volleys.map(({ milliseconds, seconds }) => milliseconds.length / seconds)),
    medianMs: at(0.5),
    p95Ms: at(0.95),
    p99Ms: at(0.99),
    slowestMs: Math.max(...sorted.map((values) => values.at(-1) ?? Infinity)),
    latency: latencyOf(
      'a request',
      volleys.flatMap(({ milliseconds }) => milliseconds),
    ),
    replies: sorted.reduce((sum, values) => sum + values.length, 0),
    wrong: volleys.flatMap(({ wrong }) => wrong).slice(0, 3),
    wrongReplies: volleys.reduce((sum, { wrongReplies }) => sum + wrongReplies, 0),
    errors: volleys.reduce((sum, { errors }) => sum + errors, 0),
  }
}

/** The least value that so great a part of them doesn't exceed. */
function percentile(sorted: Float64Array, part: number): number {
  return sorted[Math.ceil(sorted.length * part) - 1] ?? Infinity
}

export function rowsOfTable(results: Map<string, OperationResult>): string[] {
  const one = (value: number) => value.toFixed(1)
  const rows = [...results].map(([name, result]) => [
    name,
    withRange(result.perSecond, whole),
    ...[result.medianMs, result.p95Ms].map(({ median }) => one(median)),
    withRange(result.p99Ms, one),
    one(result.slowestMs),
    ...[result.controlPlaneMicroseconds, result.mongodbMicroseconds].map((cpu) => withRange(cpu, whole)),
    String(result.wrongReplies + result.errors),
  ])
  const heads = ['', 'requests/s', 'median ms', 'p95 ms', 'p99 ms', 'slowest', 'app us', 'mongod us', 'wrong']
  const table = [heads, ...rows]
  const widths = heads.map((_, column) => Math.max(...table.map((cells) => cells[column]!.length)))
  return table.map((cells) =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]! + 3))).join(''),
  )
}
