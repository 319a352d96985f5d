import type { Database } from '../shared/database.ts'

/** A benchmark that compares: it names its contenders; the frame runs them in turn and does the sums. */
export interface Comparison {
  name: string
  /** One sentence: the work, and what is compared. */
  summary: string
  defaultRows: number
  prepare(context: BenchContext): Promise<Contender[]>
}

/** A benchmark that measures in a way of its own. */
export interface Study {
  name: string
  summary: string
  run(options: StudyOptions): Promise<Outcome>
}

export interface StudyOptions {
  /** Null where the benchmark's own number stands. */
  rows: number | null
  rounds: number
  seed: number
  subscribers: number
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
}

export interface Contender {
  name: string
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
  serverCpuSeconds: () => Promise<number>
  openDatabase: (name: string) => Promise<Database>
  say: (text: string) => void
}

export interface Measurement {
  seconds: number
  rows: number
  /** CPU microseconds a row, of the client and of the server. */
  clientMicroseconds: number
  serverMicroseconds: number
  /** Highest resident memory of the client, in MB. */
  peakMemoryMB: number
  /** Whether the work was done right; a wrong one is shown and fails the run. */
  isRight: boolean
}
