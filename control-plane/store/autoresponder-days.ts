import type { AnyBulkWriteOperation, ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import type {
  AutoresponderDayDocument,
  BounceCodeDocument,
  DailyCounts,
} from '../../shared/contract/schemas/delivery.ts'

/** Writes of `autoresponder_days` and `bounce_codes`: the counts of a day, and its bounces by code. */

/** Counts are spread over this many documents, so that concurrent calls rarely conflict. */
const stripes = 8

/** Adds differences to the stored counts. `days` and `codes` have the same keys, `<autoresponder>:<day>`. */
export async function addToDays(
  { collections: { autoresponderDays, bounceCodes }, local }: Database,
  session: ClientSession,
  {
    days,
    codes,
  }: {
    days: ReadonlyMap<string, Readonly<DailyCounts>>
    codes: ReadonlyMap<string, ReadonlyMap<string, number>>
  },
): Promise<void> {
  const stripe = local.dayStripes.next(stripes)
  const dayWrites: AnyBulkWriteOperation<AutoresponderDayDocument>[] = []
  for (const [key, counts] of days) {
    const changes = Object.entries(counts).filter(([, count]) => count !== 0)
    if (changes.length > 0)
      dayWrites.push({
        updateOne: {
          filter: { _id: `${key}:${stripe}` },
          update: { $inc: Object.fromEntries(changes) },
          upsert: true,
        },
      })
  }
  if (dayWrites.length > 0) await autoresponderDays.bulkWrite(dayWrites, { session, ordered: false })

  const codeWrites: AnyBulkWriteOperation<BounceCodeDocument>[] = []
  for (const [key, bouncesByCode] of codes)
    for (const [code, bounces] of bouncesByCode)
      codeWrites.push({
        updateOne: {
          filter: { _id: `${key}:${stripe}:${code}` },
          update: { $inc: { bounces }, $setOnInsert: { code } },
          upsert: true,
        },
      })
  if (codeWrites.length > 0) await bounceCodes.bulkWrite(codeWrites, { session, ordered: false })
}
