import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { removeFolder, unlessInterrupted } from './interrupt.ts'
import { awaitCheckpoint, onServer, serverVersion } from './mongodb-server.ts'
import { plural, whole } from './report/text.ts'
import { roundOrder } from './round-order.ts'
import type { Bench, Contender, Goal, Measurement, Options, Outcome, Scenario, Unit } from './scenario.ts'
import { withService, type Service } from './service.ts'
import { ratios, spread, summarize, summarizeLatency, type Spread } from './statistics.ts'

/**
 * Scenarios whose contenders do the same work in alternating order, round after round. A shared machine changes its
 * speed, so ratios are taken within a round.
 */

interface WorkOfContenders extends Omit<Scenario, 'run'> {
  defaultRows: number
  goals?: ((measured: MeasuredRounds) => Goal[]) | undefined
}

export type MeasuredRounds = Required<Pick<Outcome, 'contenders' | 'comparisons' | 'latencies'>>

type RoundOptions = Pick<Options, 'rows' | 'rounds' | 'seed' | 'tree' | 'folder' | 'say'>
type SizedOptions = RoundOptions & { rows: number }

interface OnOneServer extends WorkOfContenders {
  /** Cache of the MongoDB server in MiB, 2048 by default. */
  cacheMB?: number
  prepare: (bench: Bench) => Promise<Contender[]>
}

/** All contenders write to one MongoDB server. */
export function comparison(work: OnOneServer) {
  const { defaultRows, cacheMB = 2_048, prepare, goals, ...scenario } = work
  return {
    ...scenario,
    run: (given: RoundOptions): Promise<Outcome> => {
      const options = { ...given, rows: given.rows ?? defaultRows }
      return onServer({ ...options, cacheMB }, async (bench) => {
        const contenders = await prepare({ ...bench, settle: () => awaitCheckpoint(bench.server) })
        const wanted = options.tree === null ? contenders : contenders.filter(({ isRollcall }) => isRollcall)
        return {
          mongodb: await serverVersion(bench.server),
          ...(await runRounds(options, wanted, { goals })),
        }
      })
    },
  }
}

interface OnServices<Input> extends WorkOfContenders {
  /** Names of the contenders. */
  kinds: string[]
  unit?: Unit | undefined
  /** What took the times: "an import of 500 rows". */
  timesOf?: string | undefined
  prepare: (options: SizedOptions) => Promise<Input>
  settings?: (kind: string, folder: string) => Promise<Record<string, string>>
  measure: (
    service: Service,
    input: Input,
    options: SizedOptions & { kind: string; folder: string },
  ) => Promise<Omit<Measurement, 'is_right'> & { wrong: string | null }>
}

/** Each contender has a new service with its own database in each round. */
export function onServices<Input>(work: OnServices<Input>): Scenario {
  const { defaultRows, kinds, unit, timesOf, prepare, settings, measure, goals, ...scenario } = work
  async function run(given: Options): Promise<Outcome> {
    const options = { ...given, rows: given.rows ?? defaultRows }
    const input = await prepare(options)
    let mongodb = ''
    const measureOnce = async (kind: string, tree: string | null): Promise<Measurement> => {
      await unlessInterrupted()
      const folder = path.join(options.folder, 'service')
      await mkdir(folder)
      const started = { folder, tree, settings: (await settings?.(kind, folder)) ?? {} }
      const { wrong, ...measured } = await withService(started, async (service) => {
        mongodb = await serverVersion(service.database.client)
        return measure(service, input, { ...options, kind, folder })
      })
      await removeFolder(folder)
      if (wrong !== null) options.say(`${kind}: ${wrong}`)
      return { ...measured, is_right: wrong === null }
    }
    const contenders = kinds.flatMap((kind) => {
      const own = { name: kind, run: () => measureOnce(kind, null) }
      const { tree } = options
      const other = { name: `${kind}, other tree`, run: () => measureOnce(kind, tree) }
      return tree === null ? [own] : [own, other]
    })
    const outcome = await runRounds(options, contenders, { unit, timesOf, goals })
    return { mongodb, ...outcome }
  }
  return { ...scenario, run }
}

/** A goal of the first table for times, of which every one counts. */
export const maxMilliseconds = (measured: Spread | undefined, max: number): Omit<Goal, 'work'> => ({
  ...{ max, unit: ' ms', measured: measured ?? null },
  headline: measured && { we: `${whole(measured.max)} ms at most`, peer: '' },
})

type Rounds = [contender: Contender, rounds: Measurement[]][]

async function runRounds(
  { rows, rounds, seed, say }: SizedOptions,
  contenders: Contender[],
  { unit = 'row', timesOf, goals }: Pick<OnServices<never>, 'unit' | 'timesOf' | 'goals'>,
): Promise<Omit<Outcome, 'mongodb'>> {
  say(`${rounds} rounds, seed ${seed}\n`)
  const all: Rounds = contenders.map((contender) => [contender, []])
  for (let round = 0; round < rounds; round += 1)
    for (const [{ name, run }, measured] of roundOrder(all, round)) {
      const one = await run()
      measured.push(one)
      const rate = whole(one.rows / one.seconds).padStart(9)
      const shown = `${rate} ${plural(unit)}/s  ${one.seconds.toFixed(1)} s`
      say(`round ${round + 1}  ${name.padEnd(32)} ${shown}${one.is_right ? '' : '  WRONG RESULT'}`)
    }
  const compared = compareRounds(all, timesOf)
  return {
    rows,
    unit,
    ...compared,
    is_right: all.every(([, measured]) => measured.every(({ is_right }) => is_right)),
    goals: (goals?.(compared) ?? []).map(({ measured, ...goal }) => {
      const isFound = measured !== null && Number.isFinite(measured.median)
      return { ...goal, size: rows, measured: isFound ? measured : null }
    }),
  }
}

export function compareRounds(all: Rounds, timesOf = ''): MeasuredRounds {
  const contenders = all.map(([{ run: _, ...contender }, rounds]) => ({
    ...contender,
    ...summarize(rounds),
    found: collectByName(rounds, ({ times }) => times)
      .map(([what, values]) => ({
        what: `ms, ${what}`,
        count: values.flat().length,
        ...spread(values.flat()),
      }))
      .filter(({ max }) => Number.isFinite(max)),
    rounds,
  }))
  const [first, ...others] = contenders
  return {
    contenders,
    // Where no process of a contender is measured, its work isn't comparable.
    comparisons: others
      .filter(({ client_us_per_row }) => client_us_per_row.max > 0)
      .map(({ name: to, rounds }) => ({ of: first!.name, to, ...ratios(first!.rounds, rounds) })),
    latencies: contenders.flatMap(({ name, rounds }) =>
      collectByName(rounds, (round) => round.times).map(([what, values]) => ({
        name: `${name}: ${what}`,
        ...summarizeLatency(timesOf, values.flat()),
      })),
    ),
  }
}

/** The values of all rounds under each name. */
function collectByName<T>(
  rounds: Measurement[],
  pick: (round: Measurement) => Record<string, T> | undefined,
) {
  const picked = rounds.map((round) => pick(round) ?? {})
  return Object.keys(picked[0] ?? {}).map((name) => [name, picked.map((values) => values[name]!)] as const)
}
