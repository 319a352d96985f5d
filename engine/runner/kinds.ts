import type { SlotBounds } from '../../shared/runtime/fair-order.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import type { Quarantine } from './quarantine.ts'

/**
 * All work of an engine. The runner (runner.ts) does each kind in the same way:
 *
 * | kind     | due when                       | runs in     | lease                       | tried again                     |
 * |----------|--------------------------------|-------------|-----------------------------|---------------------------------|
 * | start    | `begins_at` is past, list free | main thread | the step's, until its end   | as the step that it runs        |
 * | download | `downloading`, wait is over    | main thread | the engine's, until its end | after 10 and 50 s               |
 * | step     | by state, wait is over         | main thread | the engine's, until its end | after 2, 4, 8 and 16 s          |
 * | write    | a chunk is `ready`             | a lane      | 60 s, renewed by each batch | until 5 claims without a batch  |
 * | finalize | ended, nothing leased          | main thread | none: it may be done twice  | after 250 ms                    |
 * | callback | `due_at` is past               | main thread | 30 s                        | 5 times within hours            |
 *
 * What a failure does is decided in step-failures.ts for downloads and steps, in lanes.ts for chunks, and in callbacks.ts.
 */
export const slots = {
  /** Small imports run whole in it. */
  start: { atOnce: 8, ofOrganization: 2 },
  /** A download may take 15 minutes, but costs little. So it has slots of its own. */
  download: { atOnce: 16, ofOrganization: 4 },
  /** Splits and finishes keep the processor and the database busy: more would slow down other organizations. */
  step: { atOnce: 8, ofOrganization: 2 },
  finalize: { atOnce: 4 },
} satisfies Record<string, SlotBounds>

/** What the runner has to know of a kind. `Queue` is where work of it waits, `Work` what a claim gets from there. */
export interface Kind<Queue extends { organization_id: number }, Work> {
  /** Names the work in log lines: "a chunk". */
  name: string
  /** Lanes, for chunks, else an entry of `slots`. */
  slots: SlotBounds
  /** Identifies a queue across polls. */
  keyOf: (queue: Queue) => string | number
  /** What `keyOf` returns, for the log. */
  keyName: 'import_id' | 'organization_id' | 'queue'
  /** A queue has one piece of work at a time. */
  isSingle?: boolean
  /** Whether the claim found that nothing else waits in the work's queue. */
  isLast?: (work: Work) => boolean
  /** Whether this engine may begin any work of the kind now. */
  mayBegin: () => boolean
  /** Of the queues with due work, those from which work may begin beside what runs. Without this function all. */
  open?: (queues: Queue[], running: Queue[]) => Queue[]
  /** Leases the next work of the queue. Null where there is none. */
  claim: (queue: Queue, token: string) => Promise<Work | null>
  /** Does the work and releases it. Throws where the release failed. */
  run: (work: Work, control: WorkControl) => Promise<void>
  /** A stop waits this time for running work before it aborts it. */
  graceMs?: number
  /** For work under a lease that lasts as long as its engine. */
  leased?: {
    /** Keeps the tokens of claims and releases that the database didn't answer. */
    doubts: DoubtfulClaims
    /** Work on which engines died runs alone. */
    quarantine: Quarantine
    /** Engines that died with the work. */
    deaths: (work: Work) => number
  }
}

export interface WorkControl {
  /** The token of the work's lease. */
  token: string
  /** Aborted when this engine must leave the work: it stops, or the work was paused or taken over. */
  signal: AbortSignal
  /** Whether other engines took this one for dead, so that its leases are lost. */
  isDead: () => boolean
}
