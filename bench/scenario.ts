import type { MongoClient } from 'mongodb'
import type { MeasuredProcess } from './processes.ts'
import type { Ratios, Spread, Summary } from './statistics.ts'

/** A benchmark. compare.ts makes one of contenders, on one server or each on a service of its own. */
export interface Scenario {
  name: string
  /** One sentence: the work, and what it is compared with. */
  summary: string
  /** Options with which it takes about a minute. */
  quick: string[]
  /** Options that `all` adds to those that are given. */
  full?: string[]
  run: (options: Options) => Promise<Outcome>
}

export interface Options {
  /** Null for the scenario's own number. */
  rows: number | null
  rounds: number
  seed: number
  /** List sizes of `requests`: everything is measured with the first, only what may grow with the others. */
  subscribers: [number, ...number[]]
  /** Seconds for each operation in each round. */
  seconds: number
  /** Only operations whose name has this part. */
  only: string
  /** The root of another checkout with its own node_modules, with which this one is compared instead of with peers. */
  tree: string | null
  /** Scratch folder, removed at the end. */
  folder: string
  say: (text: string) => void
}

/** What a run found, as the JSON file has it. Names have their units; a Spread is over the rounds. */
export interface Outcome {
  /** Version of the server. */
  mongodb: string
  /** False when a contender's result, a reply or a count was wrong, which fails the run. */
  is_right: boolean
  rows?: number
  /** The unit of `rows`. */
  unit?: Unit
  contenders?: MeasuredContender[]
  /** The first contender against each other one. */
  comparisons?: Comparison[]
  goals?: Goal[]
  latencies?: NamedLatency[]
  /** What the scenario found besides, as it names it. */
  result?: Record<string, unknown>
}

/** What the rows of a run are. */
export type Unit = 'row' | 'MB'

/** A bound that a scenario must reach, or without one a comparison. One that is missed is shown; it doesn't fail the run. */
export interface Goal {
  work: string
  against?: string
  /** One of the two at most. The median must reach `min`, and every round must stay under `max`. */
  min?: number
  max?: number
  unit: string
  /** The bound is set for this number of rows or subscribers; the run had that of `size`. */
  set_for?: number
  size?: number
  /** Null where the run had no such contender. */
  measured: Spread | null
  /** The goal is a line of the first table: what Rollcall and the best peer did. */
  headline?: { we: string; peer: string } | undefined
}

export interface NamedLatency extends Latency {
  name: string
  /** Series with the same text share a plot, which has it in its title. */
  plot?: string
}

export interface Contender {
  name: string
  /** Name and version of another project's program: "mongoimport 100.9.4". */
  version?: string | undefined
  /** Threads, batch sizes and the like; what it leaves out, or does otherwise. */
  note?: string | undefined
  /** Rollcall, of this tree or another one. */
  isRollcall?: true
  /** Does the work once, in a new database, and checks its result. */
  run: () => Promise<Measurement>
}

export interface MeasuredContender extends Omit<Contender, 'run'>, Summary {
  /** Times, in milliseconds, of all rounds. */
  found: (Spread & { what: string; count: number })[]
  rounds: Measurement[]
}

export type Comparison = { of: string; to: string } & Ratios

/** What the contenders of a comparison share. */
export interface Bench {
  rows: number
  seed: number
  /** Scratch folder, removed at the end. */
  folder: string
  tree?: string | null
  /** The one server that all contenders write to. */
  mongodbUri: string
  server: MongoClient
  /** Waits until nothing of earlier work is left to be done by the server. */
  settle?: () => Promise<void>
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
  /** CPU microseconds: of all client processes, and of the server. */
  client_us_per_row: number
  server_us_per_row: number
  /** By process; the server's is `mongod`. */
  processes: Record<string, { cpu_seconds: number; peak_memory_mb: number }>
  timeline: Timeline
}

export interface Measurement extends Measured {
  /** By name: milliseconds of each of many alike things. */
  times?: Record<string, number[]>
  is_right: boolean
}

/** Samples, one array entry each; they count from the work's beginning. */
export interface Timeline {
  seconds: number[]
  rows: number[]
  /** By process. */
  cpu_seconds: Record<string, number[]>
}

/** Milliseconds that a share of many things, from 0 to 1, didn't exceed. */
export interface Latency {
  /** What took that time: "a batch of 1,000 rows". */
  of: string
  count: number
  quantiles: [share: number, milliseconds: number][]
}
