import type { Machine } from '../machine.ts'

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

type RatioName = `${WorkName}, ${keyof Cost}`

/** The peer's cost, divided by ours. More is better. */
export type Ratios = Record<RatioName, number>

const allRatios = works.flatMap((work) =>
  parts.map((part) => {
    const name: RatioName = `${work}, ${part}`
    return { name, work, part }
  }),
)

/** Costs are the lowest of all rounds, because a neighbour can only raise them. */
export function computeRatios(rounds: Rounds): Ratios {
  const entries = allRatios.map(({ name, work, part }) => {
    const lowest = (side: keyof Pair) => Math.min(...rounds[work].map((pair) => pair[side][part]))
    return [name, lowest('peer') / lowest('ours')]
  })
  return Object.fromEntries(entries) as Ratios
}

/** One of several ratios: `Math.max` for the better of two passes, of which a neighbour spoils only one. */
export function combineRatios(all: Ratios[], combine: (...values: number[]) => number): Ratios {
  const entries = allRatios.map(({ name }) => [name, combine(...all.map((one) => one[name]))])
  return Object.fromEntries(entries) as Ratios
}

/**
 * The share of a recorded ratio that a ratio must reach: of the record of this kind of machine, or of the lowest of all
 * records on a machine without one. That of time is lower, because a neighbour may take it from only one of the two.
 */
export const minShares = { here: { cpu: 0.8, elapsed: 0.55 }, elsewhere: { cpu: 0.6, elapsed: 0.4 } } as const

export interface Verdict {
  name: string
  recorded: number
  measured: number
  min: number
  hasFallen: boolean
}

export function judge(
  recorded: Ratios,
  measured: Ratios,
  shares: { cpu: number; elapsed: number },
): Verdict[] {
  return allRatios.map(({ name, part }) => {
    // A ratio that wasn't recorded or measured isn't a number, and has fallen.
    const [was, now] = [recorded[name] ?? NaN, measured[name] ?? NaN]
    const min = was * (part === 'elapsed' ? shares.elapsed : shares.cpu)
    return { name, recorded: was, measured: now, min, hasFallen: !(now >= min) }
  })
}
