import { spread } from '../statistics.ts'

/** What three kinds of work cost Rollcall and a peer in CPU time; see README.md. */
export const works = ['new rows', 'overwriting', 'all skipped'] as const
export type WorkName = (typeof works)[number]

/** CPU microseconds a row. */
export interface Cost {
  client: number
  server: number
}

/** One round: what the work cost Rollcall, and what it cost the peer a moment before or after. */
export interface Pair {
  ours: Cost
  peer: Cost
}

export type Rounds = Record<WorkName, Pair[]>

/** How many times as much the peer used, by what it is of: "new rows, client". More is better. */
export type Ratios = Record<string, number>

/**
 * Of the least cost in all rounds: a neighbour only ever adds to it. Client and server each by itself: a slowdown of one
 * is thinner in the sum of both.
 */
export function ratiosOf(rounds: Rounds): Ratios {
  const ratios: Ratios = {}
  for (const work of works)
    for (const side of ['client', 'server'] as const) {
      const least = (who: keyof Pair) => Math.min(...rounds[work].map((pair) => pair[who][side]))
      ratios[`${work}, ${side}`] = least('peer') / least('ours')
    }
  return ratios
}

/** Of what was recorded, a ratio must reach so much: where it was recorded, and on a machine where rows cost otherwise. */
export const leastParts = { here: 0.8, elsewhere: 0.6 }

export interface Verdict {
  name: string
  recorded: number
  measured: number
  /** It is below that part of what was recorded. */
  hasFallen: boolean
}

export function judge(recorded: Ratios, measured: Ratios, leastPart: number): Verdict[] {
  return Object.entries(recorded).map(([name, before]) => {
    const now = measured[name] ?? Number.NaN
    return { name, recorded: before, measured: now, hasFallen: !(now >= before * leastPart) }
  })
}

/** The better of two runs, ratio by ratio: a neighbour that comes and goes spoils one, what became dearer spoils both. */
export const betterOf = (one: Ratios, other: Ratios): Ratios =>
  combined([one, other], (ratios) => Math.max(...ratios))

export const mediansOf = (passes: Ratios[]): Ratios => combined(passes, (ratios) => spread(ratios).median)

const combined = (passes: Ratios[], combine: (ratios: number[]) => number): Ratios =>
  Object.fromEntries(
    Object.keys(passes[0]!).map((name) => [name, combine(passes.map((pass) => pass[name]!))]),
  )
