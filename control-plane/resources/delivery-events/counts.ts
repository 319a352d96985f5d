import {
  dailyCounters,
  type DailyCounter,
  type DailyCounts,
  type DeliveryMessageDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import { countedBounceCode, countsOfMessage, noDailyCounts } from './message-state.ts'

/** The differences that one call makes to the daily counts, summed so that each day needs one `$inc`. */
export class DayCounts {
  /** The key is `<autoresponder>:<day>`. */
  readonly #days = new Map<string, DailyCounts>()
  /** By the same key, and then by code. */
  readonly #codes = new Map<string, Map<string, number>>()

  count(autoresponderId: number, day: number, counter: DailyCounter): void {
    this.#countsAt(autoresponderId, day)[counter] += 1
  }

  /** Adds what the message counts for now, less what it counted for before. */
  replace(autoresponderId: number, before: DeliveryMessageDocument, after: DeliveryMessageDocument): void {
    if (after.sent_day === null) return
    const day = this.#countsAt(autoresponderId, after.sent_day)
    const old = countsOfMessage(before)
    const counts = countsOfMessage(after)
    for (const name of dailyCounters) day[name] += counts[name] - old[name]
    const code = countedBounceCode(after)
    if (code !== null && countedBounceCode(before) === null)
      this.#countCode(dayKey(autoresponderId, after.sent_day), code)
  }

  get days(): ReadonlyMap<string, Readonly<DailyCounts>> {
    return this.#days
  }

  get codes(): ReadonlyMap<string, ReadonlyMap<string, number>> {
    return this.#codes
  }

  #countsAt(autoresponderId: number, day: number): DailyCounts {
    const key = dayKey(autoresponderId, day)
    let counts = this.#days.get(key)
    if (counts === undefined) this.#days.set(key, (counts = noDailyCounts()))
    return counts
  }

  #countCode(day: string, code: string): void {
    let codes = this.#codes.get(day)
    if (codes === undefined) this.#codes.set(day, (codes = new Map<string, number>()))
    codes.set(code, (codes.get(code) ?? 0) + 1)
  }
}

/** Eight digits, so that texts sort as days do. */
const dayKey = (autoresponderId: number, day: number): string =>
  `${autoresponderId}:${String(day).padStart(8, '0')}`

/** The filter on `_id` for the days of an autoresponder, first and last included. */
export const daysBetween = (autoresponderId: number, { first, last }: { first: number; last: number }) => ({
  $gte: `${dayKey(autoresponderId, first)}:`,
  // In ASCII ";" follows ":", so this bound includes all stripes of the last day.
  $lt: `${dayKey(autoresponderId, last)};`,
})
