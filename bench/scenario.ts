import type { MongoClient } from 'mongodb'
import type { Database } from '../shared/runtime/database.ts'
import type { MeasuredProcess } from './processes.ts'
import type { Report } from './report/report.ts'
import type { Spread } from './statistics.ts'

/** A benchmark. `comparison()` in compare.ts makes one of contenders that do the same work. */
export interface Scenario {
  name: string
  /** One sentence: the work, and what it is compared with. */
  summary: string
  /** Options with which it takes about a minute; null for one that says nothing with few rows. */
  quick: string[] | null
  /** Options that `all` adds to those that are given. */
  full?: string[]
  /** The rows of the table at the head of the page of results. */
  targets?: Target[]
  run: (options: Options) => Promise<Outcome>
}

/** A bound that a scenario must reach, in the table of RESULTS.md. */
export interface Target {
  work: string
  against: string
  /** One of the two. The median must reach a minimum; every round must stay under a maximum. */
  min?: number
  max?: number
  unit: string
  /** The bound is set for this number of rows. */
  rows?: number
  /** Null where the run had no such contender or goal. */
  find: (report: Report) => Spread | null
}

export interface Options {
  /** Null for the scenario's own number. */
  rows: number | null
  rounds: number
  seed: number
  /** List sizes of `requests`: everything is measured with the first, only what may grow with the others. */
  subscribers: [number, ...number[]]
  connections: number
  /** Seconds for each operation in each round. */
  seconds: number
  /** Only operations whose name has this part. */
  only: string | null
  /** A folder that is kept and used again, instead of the scratch folder. */
  data: string | null
  /** Scratch folder, removed at the end. */
  folder: string
  say: (text: string) => void
}

export interface Outcome {
  /** Version of the server. */
  mongodb: string
  /** A wrong result fails the run. */
  isRight: boolean
  rows?: number
  /** The first is compared with each other one. */
  contenders?: MeasuredContender[]
  /** What the scenario found besides, for the JSON file. */
  result?: Record<string, unknown>
  goals?: Goal[]
  latencies?: NamedLatency[]
  timelines?: NamedTimelines[]
}

export interface NamedLatency extends Latency {
  name: string
  /** Series with the same text share a plot, which has it in its title. */
  plot?: string
}

/** How a kind of work went, round by round. */
export interface NamedTimelines {
  name: string
  /** What is counted where it isn't rows: "MB". */
  of?: string
  /** Series with the same text share a plot, as those of latencies do. */
  plot?: string
  rounds: Timeline[]
}

/** A goal that is missed is shown; it doesn't fail the run. */
export interface Goal {
  what: string
  isMet: boolean
  measured?: Spread
}

export interface Contender {
  name: string
  /** Name and version of another project's program: "mongoimport 100.9.4". */
  version?: string | undefined
  /** Threads, batch sizes and the like. */
  settings?: Record<string, string | number | boolean>
  /** What it leaves out, or does otherwise. */
  note?: string | undefined
  /** Does the work once, in a new database, and checks its result. */
  run: () => Promise<Measurement>
}

export type MeasuredContender = Contender & { measured: Measurement[] }

/** What the contenders of a comparison share. */
export interface Bench {
  rows: number
  seed: number
  /** Scratch folder, removed at the end. */
  folder: string
  /** The one server that all contenders write to. */
  mongodbUri: string
  server: MongoClient
  openDatabase: (name: string) => Promise<Database>
  say: (text: string) => void
}

export interface Work<T> {
  /** The client's processes. */
  processes: MeasuredProcess[]
  /** What the work is about; a function is called when it is done. */
  rows: number | (() => number)
  /** Rows done so far; by default the inserts and updates that the server got since the beginning. */
  progress?: () => number
  /** 250 by default. One sample costs a process of Rollcall 1-2 ms of CPU time. */
  sampleIntervalMs?: number
  do: () => Promise<T>
}

export interface Measured {
  seconds: number
  rows: number
  /** CPU microseconds a row: of all client processes, and of the server. */
  clientMicroseconds: number
  serverMicroseconds: number
  /** By process; the server's is `mongod`. */
  processes: Record<string, { cpuSeconds: number; peakMemoryMB: number }>
  timeline: Timeline
}

export interface Measurement extends Measured {
  latency?: Latency
  isRight: boolean
}

/** Samples, one array entry each; they count from the work's beginning. */
export interface Timeline {
  seconds: number[]
  /** Null where nothing was counted. */
  rows: number[] | null
  /** By process. */
  cpuSeconds: Record<string, number[]>
  memoryMB: Record<string, number[]>
}

/** Milliseconds that a share of many things, from 0 to 1, didn't exceed. */
export interface Latency {
  /** What took that time: "a batch of 1,000 rows". */
  of: string
  count: number
  quantiles: [share: number, milliseconds: number][]
}

/** Finds what was measured for the goal whose text begins so. */
export function goalThatBegins(text: string): Target['find'] {
  return ({ goals }) => goals.find(({ what }) => what.startsWith(text))?.measured ?? null
}
