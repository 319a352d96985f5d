import type { AnyBulkWriteOperation, ClientSession } from 'mongodb'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import {
  dailyCounters,
  type AutoresponderDayDocument,
  type BounceCodeDocument,
  type DailyCounter,
  type DailyCounts,
  type DeliveryMessageDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import { countedBounceCode, countsOfMessage, noDailyCounts } from './message-state.ts'

/** By how much a call moves the daily figures: sums of differences, written as one `$inc` a day. */
export class DayCounts {
  /** By `<autoresponder>:<day>`. */
  readonly #days = new Map<string, DailyCounts>()
  /** By the same and the code. */
  readonly #codes = new Map<string, Map<string, number>>()

  count(autoresponderId: number, day: number, counter: DailyCounter): void {
    this.#dayOf(autoresponderId, day)[counter] += 1
  }

  /** What a message adds now, less what it added before. */
  replace(autoresponderId: number, before: DeliveryMessageDocument, after: DeliveryMessageDocument): void {
    if (after.sent_day === null) return
    const day = this.#dayOf(autoresponderId, after.sent_day)
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

  #dayOf(autoresponderId: number, day: number): DailyCounts {
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

/** The filter on `_id` for the days of an autoresponder, both ends with them. */
export const daysBetween = (autoresponderId: number, { first, last }: { first: number; last: number }) => ({
  $gte: `${dayKey(autoresponderId, first)}:`,
  // ";" follows ":".
  $lt: `${dayKey(autoresponderId, last)};`,
})

/** Taken in turn, so that calls that are under way in one process seldom meet. */
const stripes = 8
let lastStripe = Math.floor(Math.random() * stripes)

/** Adds them to what is stored, in the session's transaction. */
export async function writeStats(
  { autoresponderDays, bounceCodes }: Collections,
  session: ClientSession,
  dayCounts: DayCounts,
): Promise<void> {
  lastStripe = (lastStripe + 1) % stripes
  const days: AnyBulkWriteOperation<AutoresponderDayDocument>[] = []
  for (const [key, counts] of dayCounts.days) {
    const moved = Object.entries(counts).filter(([, count]) => count !== 0)
    if (moved.length > 0)
      days.push({
        updateOne: {
          filter: { _id: `${key}:${lastStripe}` },
          update: { $inc: Object.fromEntries(moved) },
          upsert: true,
        },
      })
  }
  if (days.length > 0) await autoresponderDays.bulkWrite(days, { session, ordered: false })

  const codes: AnyBulkWriteOperation<BounceCodeDocument>[] = []
  for (const [key, ofDay] of dayCounts.codes)
    for (const [code, bounces] of ofDay)
      codes.push({
        updateOne: {
          filter: { _id: `${key}:${lastStripe}:${code}` },
          update: { $inc: { bounces }, $setOnInsert: { code } },
          upsert: true,
        },
      })
  if (codes.length > 0) await bounceCodes.bulkWrite(codes, { session, ordered: false })
}
