import type { Database } from '../shared/runtime/database.ts'
import type { ProcessOfContender } from './processes.ts'
import type { Spread } from './statistics.ts'

/** A benchmark that compares: it names its contenders; the frame runs them in turn and does the sums. */
export interface Comparison {
  name: string
  /** One sentence: the work, and what is compared. */
  summary: string
  defaultRows: number
  /** False for one that says nothing with few rows: it isn't run where all are run quickly. */
  quick?: false
  /** Of the MongoDB server, 2048 by default. */
  cacheMB?: number
  prepare(context: BenchContext): Promise<Contender[]>
}

/** A benchmark that measures in a way of its own. */
export interface Study {
  name: string
  summary: string
  /** Options with which it takes a minute at most; without them it isn't run where all are run quickly. */
  quick?: string[]
  /** Options that it has where all are run in full, beside those that are given. */
  full?: string[]
  run(options: StudyOptions): Promise<Outcome>
}

export interface StudyOptions {
  /** Null where the benchmark's own number stands. */
  rows: number | null
  rounds: number
  seed: number
  /** Of `requests`: with how many all is measured, and then with how many more only what may grow with them. */
  subscribers: number[]
  connections: number
  /** Of each operation in each round. */
  seconds: number
  /** Only operations with this in their name; null for all. */
  only: string | null
  /** A folder that is kept, and used again with what it holds; null for the scratch folder. */
  data: string | null
  /** Scratch folder, removed at the end. */
  folder: string
  say: (text: string) => void
}

export interface Outcome {
  /** Whether the work was done right; a wrong one fails the run. */
  isRight: boolean
  /** For the JSON file. */
  result: Record<string, unknown>
  goals?: Goal[]
  latencies?: NamedLatency[]
  timelines?: NamedTimelines[]
}

export interface NamedLatency extends Latency {
  name: string
  /** As that of timelines. */
  plot?: string
}

/** How a kind of work went, round by round. */
export interface NamedTimelines {
  name: string
  /** What is counted as rows, where it is something else: "MB". */
  of?: string
  /** Said in the title of a throughput plot of its own, where there would be too much in one. */
  plot?: string
  rounds: Timeline[]
}

/** What was to be reached; one that is missed is shown and doesn't fail the run. */
export interface Goal {
  what: string
  isMet: boolean
  /** The figure itself, for the page of results. */
  measured?: Spread
}

export interface Contender {
  name: string
  /** What it is, where it isn't of this repository: "mongoimport 100.9.4". */
  version?: string
  /** What it was told: threads, batch sizes and the like. */
  settings?: Record<string, string | number | boolean>
  /** What it does less than the others, or otherwise. */
  note?: string
  /** Does the work once, on clean ground, and says what it took. */
  run(): Promise<Measurement>
}

export interface BenchContext {
  rows: number
  seed: number
  /** Scratch folder, removed at the end. */
  folder: string
  /** The one MongoDB server that all contenders write to. */
  mongodbUri: string
  openDatabase: (name: string) => Promise<Database>
  serverCpuSeconds: () => Promise<number>
  /**
   * Times a contender's work, and looks at its processes and at the server four times a second meanwhile. What comes of
   * it is the contender's measurement, but for whether the work was done right.
   */
  measure: (work: Work) => Promise<Measured>
  say: (text: string) => void
}

export interface Work {
  /** The contender's processes, the one that does the work first. */
  processes: ProcessOfContender[]
  /** Rows done so far; left out, the inserts and updates that the server was told to do since the beginning. */
  progress?: () => number
  /** That the work is about, where they aren't the benchmark's. */
  rows?: number
  /** 250 by default. A look costs a process of Rollcall 1-2 ms of CPU time. */
  pollIntervalMs?: number
  do: () => Promise<void>
}

export interface Measurement {
  seconds: number
  rows: number
  /** CPU microseconds a row, of all of the client's processes and of the server. */
  clientMicroseconds: number
  serverMicroseconds: number
  /** Highest resident memory of the client's first process, in MB. */
  peakMemoryMB: number
  /** CPU and memory of each process by its name, the server's being `mongod`. */
  processes?: Record<string, { cpuSeconds: number; peakMemoryMB: number }>
  timeline?: Timeline
  latency?: Latency
  /** Whether the work was done right; a wrong one is shown and fails the run. */
  isRight: boolean
}

export type Measured = Omit<Measurement, 'isRight' | 'latency'> &
  Required<Pick<Measurement, 'processes' | 'timeline'>>

/** What was seen at each moment, moment by moment in each array; figures count from the work's beginning. */
export interface Timeline {
  seconds: number[]
  /** Null where nothing was counted. */
  rows: number[] | null
  /** By the process's name. */
  cpuSeconds: Record<string, number[]>
  memoryMB: Record<string, number[]>
}

/** How long one of many things took: milliseconds that a part of them, from 0 to 1, didn't exceed. */
export interface Latency {
  /** Of what: "a batch of 1,000 rows". */
  of: string
  count: number
  quantiles: [part: number, milliseconds: number][]
}
