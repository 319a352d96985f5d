import type { Database } from '../../../shared/runtime/database.ts'
import { dailyCounters, type DailyCounts } from '../../../shared/contract/schemas/delivery.ts'
import { daysBetween } from '../delivery-events/counts.ts'
import { noDailyCounts } from '../delivery-events/message-state.ts'

/** Most codes that are told of: what senders make of codes is their own affair, the size of a reply isn't. */
const maxCodes = 100_000

export interface Sums {
  counts: DailyCounts
  bounceCodes: Record<string, number>
}

/**
 * The sums over sending days, both ends with them. The cost is that of the days, however many events there were. They
 * are read in one snapshot: a call's figures lie in several documents.
 */
export function sumDays(
  { client, collections: { autoresponderDays, bounceCodes } }: Database,
  autoresponderId: number,
  { first, last }: { first: number; last: number },
): Promise<Sums> {
  const $match = { _id: daysBetween(autoresponderId, { first, last }) }
  return client.withSession({ snapshot: true }, async (session) => {
    const sums = await autoresponderDays
      .aggregate<DailyCounts>([{ $match }, { $group: { _id: null, ...sumOfEach } }], { session })
      .toArray()
    const codes = await bounceCodes
      .aggregate<{ _id: string; bounces: number }>(
        [
          { $match },
          { $group: { _id: '$code', bounces: { $sum: '$bounces' } } },
          { $sort: { bounces: -1, _id: 1 } },
          { $limit: maxCodes },
        ],
        // Others are served between two batches.
        { session, batchSize: 1_000 },
      )
      .toArray()
    return {
      counts: sums[0] ?? noDailyCounts(),
      bounceCodes: Object.fromEntries(codes.map(({ _id, bounces }) => [_id, bounces])),
    }
  })
}

const sumOfEach = Object.fromEntries(dailyCounters.map((name) => [name, { $sum: `$${name}` }]))
