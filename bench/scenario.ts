import type { Database } from '../shared/database.ts'

/** What a benchmark is made of. A scenario names its contenders; the frame runs them in turn and does the sums. */
export interface Scenario {
  name: string
  /** One sentence: the work, and what is compared. */
  summary: string
  defaultRows: number
  prepare(context: BenchContext): Promise<Contender[]>
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
