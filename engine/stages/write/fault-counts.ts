import type { FaultCount } from '../../../shared/contract/schemas/import.ts'

/** Counts faults of rows. There are at most a few for each mapped column, however many rows fail. */
export class FaultCounts {
  readonly #counts = new Map<string, FaultCount>()

  add(added: FaultCount): void {
    const key = `${added.kind} ${added.column} ${added.field_id}`
    const known = this.#counts.get(key)
    const count =
      known === undefined
        ? added
        : {
            ...known,
            rows: known.rows + added.rows,
            first: added.first.record < known.first.record ? added.first : known.first,
          }
    this.#counts.set(key, count)
  }

  get all(): FaultCount[] {
    return [...this.#counts.values()]
  }
}

/** The sums of both. */
export function addFaults(counted: readonly FaultCount[], added: readonly FaultCount[]): FaultCount[] {
  const sums = new FaultCounts()
  for (const count of [...counted, ...added]) sums.add(count)
  return sums.all
}
