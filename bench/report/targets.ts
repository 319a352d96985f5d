import type { Spread } from '../statistics.ts'
import type { ContenderReport, Report } from './report.ts'

/** What the engine is to reach, each against a peer in the same run on the same server, and where it is measured. */
export interface Target {
  work: string
  against: string
  /** With its unit and whether more or less is better. */
  atLeast?: number
  atMost?: number
  unit: string
  benchmark: string
  /** That it is set for. */
  rows: number
  /** Null where the run hadn't such a contender or goal. */
  find: (report: Report) => Spread | null
}

export const targets: Target[] = [
  {
    work: 'new rows',
    against: 'mongoimport insert, unique email index, 4 workers',
    atLeast: 1.25,
    unit: 'x',
    benchmark: 'new-rows',
    rows: 1_000_000,
    find: speedAgainst('mongoimport insert'),
  },
  {
    work: 'new rows',
    against: 'insertMany of the driver, the same documents in file order, same indexes, 2 threads',
    atLeast: 1,
    unit: 'x',
    benchmark: 'new-rows',
    rows: 1_000_000,
    find: speedAgainst('plain insertMany'),
  },
  {
    work: 'new rows',
    against: 'mongoimport upsert',
    atLeast: 3.5,
    unit: 'x',
    benchmark: 'new-rows',
    rows: 1_000_000,
    find: speedAgainst('mongoimport upsert'),
  },
  {
    work: 'rows overwriting',
    against: 'mongoimport merge',
    atLeast: 1.5,
    unit: 'x',
    benchmark: 'overwriting',
    rows: 1_000_000,
    find: speedAgainst('mongoimport merge'),
  },
  {
    work: 'rows overwriting',
    against: 'mongoimport upsert',
    atLeast: 2.5,
    unit: 'x',
    benchmark: 'overwriting',
    rows: 1_000_000,
    find: speedAgainst('mongoimport upsert'),
  },
  {
    work: 'rows all skipped',
    against: 'its own rate for new rows',
    atLeast: 2,
    unit: 'x',
    benchmark: 'all-skipped',
    rows: 1_000_000,
    find: speedAgainst('rollcall, new rows'),
  },
  {
    work: 'ten times as many new rows, server cache 0.5 GB',
    against: 'its own rate for a tenth of them',
    atLeast: 0.85,
    unit: 'x',
    benchmark: 'beyond-cache',
    rows: 10_000_000,
    find: ({ comparisons }) => comparisons[0]?.speed ?? null,
  },
  {
    work: 'memory of the engine, ten times as many rows',
    against: '',
    atMost: 400,
    unit: ' MB',
    benchmark: 'beyond-cache',
    rows: 10_000_000,
    find: ({ contenders }) => single(engineMemory(contenders[0])),
  },
  {
    work: 'memory of the engine, ten times as many rows',
    against: 'its own for a tenth of them',
    atMost: 100,
    unit: ' MB more',
    benchmark: 'beyond-cache',
    rows: 10_000_000,
    find: ({ contenders: [many, few] }) => single(engineMemory(many) - engineMemory(few)),
  },
  {
    work: 'a pause holds',
    against: '',
    atMost: 1,
    unit: ' s',
    benchmark: 'pause-and-kill',
    rows: 0,
    find: goalThatBegins('a pause'),
  },
  {
    work: 'rows are written again after kill -9, and counts, subscribers and logs are the same in the end',
    against: '',
    atMost: 25,
    unit: ' s',
    benchmark: 'pause-and-kill',
    rows: 0,
    find: goalThatBegins('rows are written again'),
  },
  {
    work: '500 rows of another organization beside a giant',
    against: '',
    atMost: 3,
    unit: ' s',
    benchmark: 'small-beside-giant',
    rows: 5_000_000,
    find: goalThatBegins('500 rows'),
  },
]

function goalThatBegins(text: string): Target['find'] {
  return ({ goals }) => goals.find(({ what }) => what.startsWith(text))?.measured ?? null
}

/** The first contender's speed in terms of this one's. */
function speedAgainst(name: string): Target['find'] {
  return ({ comparisons }) => comparisons.find(({ to }) => to === name)?.speed ?? null
}

const engineMemory = (contender: ContenderReport | undefined): number =>
  contender?.peak_memory_mb['engine'] ?? Number.NaN

const single = (value: number): Spread | null =>
  Number.isNaN(value) ? null : { median: value, least: value, most: value }

/** By the median of what is to be much, by the most of what is to be little: a pause holds each time. */
export const isMet = (
  { atLeast = -Infinity, atMost = Infinity }: Target,
  { median, most }: Spread,
): boolean => median >= atLeast && most <= atMost
