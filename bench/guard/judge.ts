import type { Machine } from '../machine.ts'
import { spread } from '../statistics.ts'

/** What three kinds of work cost Rollcall and a peer in CPU time, and how long they take them; see README.md. */
export const works = ['new rows', 'overwriting', 'all skipped'] as const
export type WorkName = (typeof works)[number]

/** Microseconds a row: of CPU time, and on the clock. */
export interface Cost {
  client: number
  server: number
  elapsed: number
}

const sides = ['client', 'server', 'elapsed'] as const
type Side = (typeof sides)[number]

/** One round: what the work cost Rollcall, and what it cost the peer a moment before or after. */
export interface Pair {
  ours: Cost
  peer: Cost
}

/** What was measured on one kind of machine. */
export interface Recorded {
  at: string
  machine: Machine
  versions: Record<string, string>
  rows: number
  rounds: number
  ratios: Ratios
}

/** Those by which a machine is judged: that of its own kind, or else all there are. */
export function recordsFor(machine: Machine, all: Recorded[]): Recorded[] {
  const own = all.find((one) => isSameKind(one.machine, machine))
  return own === undefined ? all : [own]
}

/** With it in the place of the one of its kind of machine, or after all others. */
export function withRecord(all: Recorded[], recorded: Recorded): Recorded[] {
  const place = all.findIndex((one) => isSameKind(one.machine, recorded.machine))
  return place === -1 ? [...all, recorded] : all.with(place, recorded)
}

export const isSameKind = (one: Machine, other: Machine): boolean =>
  one.cpu === other.cpu && one.cores === other.cores

export type Rounds = Record<WorkName, Pair[]>

type RatioName = `${WorkName}, ${Side}`

/** How many times as much the peer used. More is better. */
export type Ratios = Record<RatioName, number>

/**
 * Of the least cost in all rounds: a neighbour only ever adds to it. Client and server each by itself: a slowdown of one
 * is thinner in the sum of both.
 */
export function ratiosOf(rounds: Rounds): Ratios {
  const ratios: Partial<Ratios> = {}
  for (const work of works)
    for (const side of sides) {
      const least = (who: keyof Pair) => Math.min(...rounds[work].map((pair) => pair[who][side]))
      ratios[`${work}, ${side}`] = least('peer') / least('ours')
    }
  return ratios as Ratios
}

/** Of what was recorded, a ratio must reach so much. */
export interface LowestParts {
  cpu: number
  /** Less, as a neighbour may take time from one of the two alone. */
  elapsed: number
}

/** Of the record of this kind of machine, and of the lowest of all records where this one has none. */
export const lowestParts = {
  here: { cpu: 0.8, elapsed: 0.55 },
  elsewhere: { cpu: 0.6, elapsed: 0.4 },
} as const satisfies Record<string, LowestParts>

export interface Verdict {
  name: string
  recorded: number
  measured: number
  /** What it must reach. */
  least: number
  hasFallen: boolean
}

export function judge(recorded: Ratios, measured: Ratios, parts: LowestParts): Verdict[] {
  return ratioNames.map((name) => {
    const [before, now] = [recorded[name], measured[name]]
    const least = before * (name.endsWith('elapsed') ? parts.elapsed : parts.cpu)
    return { name, recorded: before, measured: now, least, hasFallen: !(now >= least) }
  })
}

/** The better of two runs, ratio by ratio: a neighbour that comes and goes spoils one, what became dearer spoils both. */
export const betterOf = (one: Ratios, other: Ratios): Ratios =>
  combined([one, other], (ratios) => Math.max(...ratios))

/** What each machine of those reached at least, ratio by ratio. */
export const lowestOf = (records: Ratios[]): Ratios => combined(records, (ratios) => Math.min(...ratios))

export const mediansOf = (passes: Ratios[]): Ratios => combined(passes, (ratios) => spread(ratios).median)

const combined = (passes: Ratios[], combine: (ratios: number[]) => number): Ratios =>
  Object.fromEntries(ratioNames.map((name) => [name, combine(passes.map((pass) => pass[name]))])) as Ratios

const ratioNames = works.flatMap((work) => sides.map((side): RatioName => `${work}, ${side}`))
