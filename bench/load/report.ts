import type { Latency } from '../scenario.ts'
import { latencyOf, spread, type Spread } from '../statistics.ts'
import type { Volley } from './cannon.ts'

export interface MeasuredVolley extends Volley {
  /** What the service used meanwhile. */
  cpuSeconds: { controlPlane: number; mongodb: number }
}

/** What the rounds of one operation came to; milliseconds, each with its spread over the rounds. */
export interface OperationResult {
  perSecond: Spread
  medianMs: Spread
  p95Ms: Spread
  p99Ms: Spread
  slowestMs: number
  /** Over all rounds. */
  latency: Latency
  /** CPU microseconds a request; the database's hold all that it did meanwhile. */
  controlPlaneMicroseconds: number
  mongodbMicroseconds: number
  replies: number
  wrong: string[]
  wrongReplies: number
  errors: number
}

export function summarizeVolleys(volleys: MeasuredVolley[]): OperationResult {
  const sorted = volleys.map(({ milliseconds }) => Float64Array.from(milliseconds).sort())
  const at = (part: number) => spread(sorted.map((values) => percentile(values, part)))
  const cpu = (part: 'controlPlane' | 'mongodb') =>
    spread(volleys.map(({ cpuSeconds, milliseconds }) => (cpuSeconds[part] / milliseconds.length) * 1e6))
      .median
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
    controlPlaneMicroseconds: cpu('controlPlane'),
    mongodbMicroseconds: cpu('mongodb'),
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
  const heads = [
    'requests/s',
    'median ms',
    'p95 ms',
    'p99 ms',
    'least',
    'most',
    'slowest',
    'app us',
    'mongod us',
    'wrong',
  ]
  const line = (name: string, cells: string[]) =>
    name.padEnd(30) + cells.map((cell) => cell.padStart(10)).join('')
  return [
    line('', heads),
    ...[...results].map(([name, result]) =>
      line(name, [
        Math.round(result.perSecond.median).toLocaleString('en'),
        ...[
          result.medianMs.median,
          result.p95Ms.median,
          result.p99Ms.median,
          result.p99Ms.least,
          result.p99Ms.most,
          result.slowestMs,
        ].map((value) => value.toFixed(1)),
        ...[result.controlPlaneMicroseconds, result.mongodbMicroseconds].map((value) =>
          String(Math.round(value)),
        ),
        String(result.wrongReplies + result.errors),
      ]),
    ),
  ]
}
