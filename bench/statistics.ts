import type { Measurement } from './scenario.ts'

export interface Spread {
  median: number
  least: number
  most: number
}

export interface Summary {
  rowsPerSecond: Spread
  seconds: Spread
  clientMicroseconds: number
  serverMicroseconds: number
  peakMemoryMB: number
}

export function spread(values: number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
  return { median, least: sorted[0]!, most: sorted.at(-1)! }
}

export function summarize(measured: Measurement[]): Summary {
  const median = (pick: (measurement: Measurement) => number) => spread(measured.map(pick)).median
  return {
    rowsPerSecond: spread(measured.map(({ rows, seconds }) => rows / seconds)),
    seconds: spread(measured.map(({ seconds }) => seconds)),
    clientMicroseconds: median((measurement) => measurement.clientMicroseconds),
    serverMicroseconds: median((measurement) => measurement.serverMicroseconds),
    peakMemoryMB: Math.max(...measured.map((measurement) => measurement.peakMemoryMB)),
  }
}

/** Speed of one contender in terms of another's, round by round. */
export function ratios(of: Measurement[], to: Measurement[]): Spread {
  return spread(
    of.map((measurement, i) => measurement.rows / measurement.seconds / (to[i]!.rows / to[i]!.seconds)),
  )
}
