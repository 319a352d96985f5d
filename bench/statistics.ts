import type { Latency, Measured } from './scenario.ts'

export interface Spread {
  median: number
  min: number
  max: number
}

/** Not a number where there are no values. */
export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (i: number) => sorted[Math.floor(i)] ?? Number.NaN
  const last = sorted.length - 1
  return { median: (at(last / 2) + at((last + 1) / 2)) / 2, min: at(0), max: at(last) }
}

/** The rounds of one contender. */
export interface Summary {
  rows_per_second: Spread
  seconds: Spread
  /** CPU microseconds a row: of all client processes, and of the server. */
  client_us_per_row: Spread
  server_us_per_row: Spread
  /** The highest resident memory of all rounds, by process; the server's is `mongod`. */
  peak_memory_mb: Record<string, number>
}

export function summarize(measured: Measured[]): Summary {
  const over = (pick: (one: Measured) => number) => spread(measured.map(pick))
  const highest: Record<string, number> = {}
  for (const [name, { peak_memory_mb: peak }] of measured.flatMap(({ processes }) =>
    Object.entries(processes),
  ))
    highest[name] = Math.max(highest[name] ?? 0, peak)
  return {
    rows_per_second: over(({ rows, seconds }) => rows / seconds),
    seconds: over(({ seconds }) => seconds),
    client_us_per_row: over((one) => one.client_us_per_row),
    server_us_per_row: over((one) => one.server_us_per_row),
    peak_memory_mb: highest,
  }
}

/** One contender against another, within each round; more is better for the first. */
export interface Ratios {
  /** Rows per second: the first's, divided by the other's. */
  speed: Spread
  /** CPU time a row, client and server together: the other's, divided by the first's. */
  cpu: Spread
}

export function ratios(first: Measured[], other: Measured[]): Ratios {
  const pairs = first.flatMap((a, round) => other.slice(round, round + 1).map((b) => [a, b] as const))
  const microseconds = (one: Measured) => one.client_us_per_row + one.server_us_per_row
  return {
    speed: spread(pairs.map(([a, b]) => a.rows / a.seconds / (b.rows / b.seconds))),
    cpu: spread(pairs.map(([a, b]) => microseconds(b) / microseconds(a))),
  }
}

/** Those whose time is in the middle: in all rounds together one slow minute would dominate. */
export function middle<T>(rounds: readonly T[], secondsOf: (round: T) => number): T | undefined {
  return rounds.toSorted((a, b) => secondsOf(a) - secondsOf(b))[Math.floor(rounds.length / 2)]
}

/** The lowest value that this share of the values doesn't exceed. */
export function percentile(values: readonly number[], share: number): number {
  return percentileOfSorted(Float64Array.from(values).sort(), share)
}

const percentileOfSorted = (sorted: Float64Array, share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Infinity

const shares = [
  0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99,
  0.995, 0.999, 1,
]

export function summarizeLatency(of: string, milliseconds: readonly number[]): Latency {
  const sorted = Float64Array.from(milliseconds).sort()
  const count = sorted.length
  const quantiles = shares.map((share): [number, number] => [share, percentileOfSorted(sorted, share)])
  return { of, count, quantiles: count === 0 ? [] : quantiles }
}
