import type { Machine } from '../machine.ts'
import { spread } from '../statistics.ts'

export const works = ['new rows', 'overwriting', 'all skipped'] as const
export type WorkName = (typeof works)[number]

/** Microseconds a row: of CPU time, and on the clock. */
export interface Cost {
  client: number
  server: number
  elapsed: number
}

const parts = ['client', 'server', 'elapsed'] as const

/** What the work cost Rollcall, and what it cost the peer just before or after. */
interface Pair {
  ours: Cost
  peer: Cost
}

/** What was measured on one kind of machine. */
export interface RecordedRatios {
  at: string
  machine: Machine
  versions: Record<string, string>
  rows: number
  rounds: number
  ratios: Ratios
}

/** The record of this kind of machine, or else all. */
export function recordsFor(machine: Machine, all: RecordedRatios[]): RecordedRatios[] {
  const same = all.find((one) => isSameKind(one.machine, machine))
  return same === undefined ? all : [same]
}

/** Replaces the record of the same kind of machine, or adds one. */
export function withRecord(all: RecordedRatios[], added: RecordedRatios): RecordedRatios[] {
  const at = all.findIndex((one) => isSameKind(one.machine, added.machine))
  return at === -1 ? [...all, added] : all.with(at, added)
}

export const isSameKind = (one: Machine, other: Machine): boolean =>
  one.cpu === other.cpu && one.cores === other.cores

export type Rounds = Record<WorkName, Pair[]>

type RatioName = `${WorkName}, ${(typeof parts)[number]}`

/** The peer's cost, divided by ours. More is better. */
export type Ratios = Record<RatioName, number>

const mapRatios = (compute: (work: WorkName, part: keyof Cost, name: RatioName) => number): Ratios => {
  const entries = works.flatMap((work) =>
    parts.map((part) => {
      const name: RatioName = `${work}, ${part}`
      return [name, compute(work, part, name)]
    }),
  )
  return Object.fromEntries(entries) as Ratios
}

/** Costs are the lowest of all rounds, because a neighbour can only raise them. */
export function computeRatios(rounds: Rounds): Ratios {
  return mapRatios((work, part) => {
    const lowest = (side: keyof Pair) => Math.min(...rounds[work].map((pair) => pair[side][part]))
    return lowest('peer') / lowest('ours')
  })
}

/** The share of a recorded ratio that a ratio must reach. */
export interface MinShares {
  cpu: number
  /** Lower, because a neighbour may take time from only one of the two. */
  elapsed: number
}

/** Minimum shares of the record of this kind of machine, or of the lowest of all records on a machine without one. */
export const minShares = {
  here: { cpu: 0.8, elapsed: 0.55 },
  elsewhere: { cpu: 0.6, elapsed: 0.4 },
} as const satisfies Record<string, MinShares>

export interface Verdict {
  name: string
  recorded: number
  measured: number
  min: number
  hasFallen: boolean
}

export function judge(recorded: Ratios, measured: Ratios, shares: MinShares): Verdict[] {
  const verdicts: Verdict[] = []
  mapRatios((_, part, name) => {
    const min = recorded[name] * (part === 'elapsed' ? shares.elapsed : shares.cpu)
    // A ratio that wasn't measured isn't a number, and has fallen.
    const hasFallen = !(measured[name] >= min)
    verdicts.push({ name, recorded: recorded[name], measured: measured[name], min, hasFallen })
    return min
  })
  return verdicts
}

/** The better of two passes: a neighbour spoils one of them, a change of the code both. */
export const betterRatios = (one: Ratios, other: Ratios): Ratios =>
  mapRatios((_, __, name) => Math.max(one[name], other[name]))

export const lowestRatios = (all: Ratios[]): Ratios =>
  mapRatios((_, __, name) => Math.min(...all.map((ratios) => ratios[name])))

export const medianRatios = (all: Ratios[]): Ratios =>
  mapRatios((_, __, name) => spread(all.map((ratios) => ratios[name])).median)
