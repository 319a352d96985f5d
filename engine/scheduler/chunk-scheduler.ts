import type { WorkingImport } from '../store/import-queues.ts'

/**
 * Fair queueing: chooses the import of the next chunk. The organization with the least work done so far (virtual time)
 * comes first, then its import that began first. An import of 500 rows waits for one running chunk at most, however many
 * millions of rows another organization has queued. A hundred imports of one organization weigh no more than one.
 *
 * Virtual time is in records and local to the engine: when each engine is fair, all of them are. A new organization starts
 * at the smallest virtual time of the others. It neither waits for past work, nor is its absence a credit.
 */
export class ChunkScheduler {
  readonly #virtualTimes = new Map<number, number>()
  #imports: WorkingImport[] = []
  /** Imports without a chunk to claim when last tried. */
  readonly #drained = new Set<number>()

  /** The imports whose chunks may be claimed from now on, in the order of `begins_at` and id. */
  setImports(imports: WorkingImport[]): void {
    this.#imports = imports
    this.#drained.clear()
    const organizations = new Set(imports.map((entry) => entry.organization_id))
    const known = [...organizations].flatMap((id) => this.#virtualTimes.get(id) ?? [])
    const min = known.length === 0 ? 0 : Math.min(...known)
    for (const id of organizations) if (!this.#virtualTimes.has(id)) this.#virtualTimes.set(id, min)
    for (const id of this.#virtualTimes.keys()) if (!organizations.has(id)) this.#virtualTimes.delete(id)
  }

  next(): WorkingImport | null {
    let best: WorkingImport | null = null
    for (const candidate of this.#imports) {
      if (this.#drained.has(candidate._id)) continue
      if (best === null || this.#virtualTime(candidate) < this.#virtualTime(best)) best = candidate
    }
    return best
  }

  #virtualTime(entry: WorkingImport): number {
    return this.#virtualTimes.get(entry.organization_id) ?? 0
  }

  /** Counts a chunk of the organization that was claimed. */
  charge(organizationId: number, records: number): void {
    this.#virtualTimes.set(organizationId, (this.#virtualTimes.get(organizationId) ?? 0) + records)
  }

  /** This import has no chunk to claim until the next poll. */
  markDrained(importId: number): void {
    this.#drained.add(importId)
  }

  isDrained(importId: number): boolean {
    return this.#drained.has(importId)
  }
}
