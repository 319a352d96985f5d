/**
 * The order in which organizations take the slots that they share. This is the one rule of fairness for all work that waits:
 *
 *   next is the organization with the least running work; among equals, the one with the least virtual time.
 *
 * Virtual time is what the work of an organization has cost. It is charged when the work has ended, so nothing is weighed
 * beforehand; what still runs isn't charged yet, and therefore its number comes first. Nothing starves: an organization
 * with nothing running comes before all that have something, and each piece of work that it is passed over for makes
 * another one's virtual time grow past its own. So 500 rows wait for one running chunk at most, however many millions of
 * rows another organization has queued, and a hundred imports of one organization weigh no more than one.
 *
 * A newcomer starts at the least virtual time of those that are there: it neither waits for past work, nor is its absence
 * a credit.
 */
export class FairOrder {
  readonly #bounds: SlotBounds
  /** By organization, the one that began work last at the end. */
  readonly #shares = new Map<number, Share>()
  #running = 0
  /** The least virtual time of those that were there at the last choice. It never falls. */
  #floor = 0
  #begun = 0

  constructor(bounds: SlotBounds) {
    this.#bounds = bounds
  }

  /** Slots in use. */
  get running(): number {
    return this.#running
  }

  /**
   * The piece of waiting work that is next. `waiting` is all that waits, an organization's own in its order. Undefined
   * where nothing may begin.
   */
  next<T extends { organization_id: number }>(waiting: readonly T[]): T | undefined {
    this.#meet(waiting)
    let next: T | undefined
    for (const work of waiting) {
      if (!this.#mayBegin(work)) continue
      if (next === undefined || compare(this.#shareOf(work), this.#shareOf(next)) < 0) next = work
    }
    return next
  }

  /** The work takes a slot. Returns the function to call once when it has ended, with its cost in any unit. */
  begin(work: { organization_id: number }): (cost: number) => void {
    const share = this.#shareOf(work)
    this.#shares.delete(work.organization_id)
    this.#shares.set(work.organization_id, share)
    this.#begun += 1
    share.begunLast = this.#begun
    share.running += 1
    this.#running += 1
    return (cost) => {
      share.running -= 1
      this.#running -= 1
      share.virtualTime += cost
    }
  }

  /**
   * With a bound for each, an organization takes one more slot only while it has fewer than are free (dynamic thresholds,
   * as switches share their buffers). One alone gets half of the slots at most, the next a quarter, and so on. So a
   * newcomer finds one free; with a fixed bound alone two organizations could occupy all.
   */
  #mayBegin(work: { organization_id: number }): boolean {
    const { atOnce, ofOrganization } = this.#bounds
    const free = atOnce - this.#running
    if (ofOrganization === undefined) return free > 0
    return this.#shareOf(work).running < Math.min(ofOrganization, free)
  }

  #shareOf({ organization_id: id }: { organization_id: number }): Share {
    const known = this.#shares.get(id)
    if (known !== undefined) return known
    const share = { running: 0, virtualTime: this.#floor, begunLast: 0 }
    this.#shares.set(id, share)
    return share
  }

  /**
   * Meets the new organizations, and forgets those that are gone and that all others have caught up with. Of the others
   * that are gone it forgets those that began work longest ago.
   */
  #meet(waiting: readonly { organization_id: number }[]): void {
    const present = new Set(waiting.map((work) => work.organization_id))
    let least = Infinity
    for (const [id, share] of this.#shares)
      if (share.running > 0 || present.has(id)) least = Math.min(least, share.virtualTime)
    if (least < Infinity) this.#floor = least
    for (const [id, { running, virtualTime }] of this.#shares)
      if (running === 0 && !present.has(id) && (virtualTime < this.#floor || this.#shares.size > maxKnown))
        this.#shares.delete(id)
    for (const work of waiting) this.#shareOf(work)
  }
}

/**
 * Each choice looks at all known organizations. While 10,000 send requests now and then, hardly one is forgotten by
 * what others did meanwhile, and without this bound a choice took 0.8 ms instead of 0.02.
 */
const maxKnown = 256

export interface SlotBounds {
  /** Pieces of work that run at the same time. */
  atOnce: number
  /** The same for one organization, which then also leaves as many slots free as it has. Without it one may use all. */
  ofOrganization?: number
}

interface Share {
  running: number
  virtualTime: number
  /** The position among all begun work of the last one that this organization began; 0 before its first. */
  begunLast: number
}

const compare = (a: Readonly<Share>, b: Readonly<Share>): number =>
  a.running - b.running || a.virtualTime - b.virtualTime || a.begunLast - b.begunLast
