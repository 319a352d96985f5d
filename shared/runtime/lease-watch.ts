import { clock } from './clock.ts'

/**
 * While the database stalls, no process can renew its lease, and all leases expire. So a process judges others only
 * after its own writes to the registry have had no gap for one lease. These writes wait for a majority too. A gap is
 * a stall, a suspension, or the start of this process.
 */
export class LeaseWatch {
  #lastWriteAt = -Infinity
  #judgesFrom = Infinity
  /** The database's time at the last renewal, some seconds ago: a lower bound of the current time, without a read. */
  lastKnownTime = new Date(0)

  /** Called after each write to the registry. */
  noteWrite(maxGapMs: number, leaseMs: number): void {
    const now = clock.monotonicMs()
    if (now - this.#lastWriteAt > maxGapMs) this.#judgesFrom = now + leaseMs
    this.#lastWriteAt = now
  }

  /** Whether an expired lease proves a dead process. Read it after `renewAfterElection`, whose write reveals a gap. */
  get canJudge(): boolean {
    return clock.monotonicMs() >= this.#judgesFrom
  }
}
