import type { Latency, Measurement } from './scenario.ts'

export interface Spread {
  median: number
  least: number
  most: number
}

export function spread(values: number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
  return { median, least: sorted[0]!, most: sorted.at(-1)! }
}

export interface Summary {
  rowsPerSecond: Spread
  seconds: Spread
  clientMicroseconds: Spread
  serverMicroseconds: Spread
  /** The highest of all rounds, in MB, by the process's name. */
  peakMemoryMB: Record<string, number>
}

export function summarize(measured: Measurement[]): Summary {
  const over = (pick: (measurement: Measurement) => number) => spread(measured.map(pick))
  return {
    rowsPerSecond: over(({ rows, seconds }) => rows / seconds),
    seconds: over(({ seconds }) => seconds),
    clientMicroseconds: over(({ clientMicroseconds }) => clientMicroseconds),
    serverMicroseconds: over(({ serverMicroseconds }) => serverMicroseconds),
    peakMemoryMB: peaks(measured),
  }
}

function peaks(measured: Measurement[]): Record<string, number> {
  const highest: Record<string, number> = {}
  for (const { processes, peakMemoryMB } of measured) {
    const named = Object.entries(processes ?? { client: { peakMemoryMB, cpuSeconds: 0 } })
    for (const [name, process] of named) highest[name] = Math.max(highest[name] ?? 0, process.peakMemoryMB)
  }
  return highest
}

/** One contender in terms of another, round by round: more is better for the first. */
export interface Ratios {
  /** Of the rows per second. */
  speed: Spread
  /** Of the CPU time that a row costs the other one, client and server together, to what it costs the first. */
  cpu: Spread
}

export function ratios(of: Measurement[], to: Measurement[]): Ratios {
  const perRound = (figure: (of: Measurement, to: Measurement) => number) =>
    spread(of.map((measurement, i) => figure(measurement, to[i]!)))
  return {
    speed: perRound((a, b) => a.rows / a.seconds / (b.rows / b.seconds)),
    cpu: perRound((a, b) => microseconds(b) / microseconds(a)),
  }
}

const microseconds = ({ clientMicroseconds, serverMicroseconds }: Measurement): number =>
  clientMicroseconds + serverMicroseconds

const parts = [
  0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99,
  0.995, 0.999, 1,
]

export function latencyOf(of: string, milliseconds: ArrayLike<number>): Latency {
  const sorted = Float64Array.from(milliseconds).sort()
  const count = sorted.length
  if (count === 0) return { of, count, quantiles: [] }
  return {
    of,
    count,
    quantiles: parts.map((part) => [part, sorted[Math.max(0, Math.ceil(count * part) - 1)]!]),
  }
}
