import type { ObjectId } from 'mongodb'
import { clock } from './clock.ts'
import { KeyedMutex } from './keyed-mutex.ts'

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

/** Time and election, from one answer of a primary. */
export interface PrimaryClock {
  time: Date
  /** Null through a mongos. */
  election: string | null
}

/** Fields of a reply to `hello`. */
interface Hello {
  isWritablePrimary?: boolean
  localTime?: Date
  electionId?: ObjectId
}

/**
 * While the database stalls, no process can renew its lease, and all leases expire. So a process judges others only
 * after its own writes to the registry have had no gap for one lease. These writes wait for a majority too. A gap is
 * a stall, a suspension, or the start of this process.
 */
class LeaseWatch {
  #lastWriteAt = -Infinity
  #judgesFrom = Infinity
  #stallMs: number | null = null
  /** The last answer of a primary, up to 20 s old. Its time is a lower bound of the current one, without a read. */
  lastKnown: PrimaryClock = { time: new Date(0), election: null }

  /** Called with each answer to `hello`, those to the driver's monitor included. Null where no primary gave it. */
  recordHello({ isWritablePrimary, localTime: time, electionId }: Hello): PrimaryClock | null {
    if (isWritablePrimary !== true || time === undefined) return null
    this.lastKnown = { time, election: electionId?.toHexString() ?? null }
    return this.lastKnown
  }

  /** Called after each write to the registry. */
  recordWrite(maxGapMs: number, leaseMs: number): void {
    const now = clock.monotonicMs()
    const gapMs = now - this.#lastWriteAt
    if (gapMs > maxGapMs) this.#judgesFrom = now + leaseMs
    if (gapMs > maxGapMs && gapMs < Infinity) this.#stallMs = Math.max(gapMs, this.#stallMs ?? 0)
    this.#lastWriteAt = now
  }

  /** The longest gap since the last call; null without one. The start of this process isn't one. */
  takeStallMs(): number | null {
    const stallMs = this.#stallMs
    this.#stallMs = null
    return stallMs
  }

  /** Whether an expired lease proves a dead process. Read it after `renewAfterElection`, whose write reveals a gap. */
  get canJudge(): boolean {
    return clock.monotonicMs() >= this.#judgesFrom
  }
}
