import { KeyedMutex } from './keyed-mutex.ts'
import { LeaseWatch } from './lease-watch.ts'

/** What a process keeps in memory beside its connection to a database. Each field belongs to one store. */
export class LocalState {
  /** Tells when expired leases prove that a process is dead (shared/store/leases.ts). */
  readonly leaseWatch = new LeaseWatch()
  /** Serializes transactions that use quota, by organization (shared/store/subscriber-quota.ts). */
  readonly quotaMutex = new KeyedMutex<number>()
  /** Spreads the counts of lists over their stripes (shared/store/subscriber-counts.ts). */
  readonly countStripes = new RoundRobin()
  /** Spreads the counts of autoresponders' days over their stripes (control-plane/store/delivery.ts). */
  readonly dayStripes = new RoundRobin()
  /** By autoresponder, the start of the day for which it was recorded as triggered (shared/store/reactions.ts). */
  readonly triggeredDays = new Map<number, number>()
}

/** Begins at a random number, so that processes which start together don't use the same ones. */
class RoundRobin {
  #last = Math.floor(Math.random() * 1_000)

  /** Returns a number below `size`. */
  next(size: number): number {
    return (this.#last += 1) % size
  }
}
