import { recordFromKeys } from '../../../shared/contract/record-from-keys.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import { dailyCounters, type DailyCounts } from '../../../shared/contract/schemas/delivery.ts'
import { daysBetween } from '../delivery-events/counts.ts'
import { noDailyCounts } from '../delivery-events/message-state.ts'

/** Bounds the reply, because senders choose the codes freely. */
const maxCodes = 100_000

interface Sums {
  counts: DailyCounts
  bounceCodes: Record<string, number>
}

/**
 * The sums over sending days, first and last included. The cost depends on the number of days, not of events. One snapshot
 * reads both collections, because a call of events changes several documents.
 */
export function sumDays(
  { client, collections: { autoresponderDays, bounceCodes } }: Database,
  autoresponderId: number,
  { first, last }: { first: number; last: number },
): Promise<Sums> {
  const $match = { _id: daysBetween(autoresponderId, { first, last }) }
  return client.withSession({ snapshot: true }, async (session) => {
    const sums = await autoresponderDays
      .aggregate<DailyCounts>([{ $match }, { $group: { _id: null, ...sumByCounter } }, { $unset: '_id' }], {
        session,
      })
      .toArray()
    const codes = await bounceCodes
      .aggregate<{ _id: string; bounces: number }>(
        [
          { $match },
          { $group: { _id: '$code', bounces: { $sum: '$bounces' } } },
          { $sort: { bounces: -1, _id: 1 } },
          { $limit: maxCodes },
        ],
        // In batches, so that the event loop serves other requests between them.
        { session, batchSize: 1_000 },
      )
      .toArray()
    return {
      counts: sums[0] ?? noDailyCounts(),
      bounceCodes: Object.fromEntries(codes.map(({ _id, bounces }) => [_id, bounces])),
    }
  })
}

const sumByCounter = recordFromKeys(dailyCounters, (name) => ({ $sum: `$${name}` }))
