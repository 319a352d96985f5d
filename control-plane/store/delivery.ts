import type { AnyBulkWriteOperation, ClientSession } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type {
  AutoresponderDayDocument,
  BounceCodeDocument,
  ClickedLinkDocument,
  DailyCounts,
  DeliveryEventDocument,
  DeliveryMessageDocument,
} from '../../shared/contract/schemas/delivery.ts'

/** Writes of what delivery events change, in the transaction that records them. */

/** An event that is stored already is a duplicate key, whose error passes through. */
export async function insertDeliveryEvents(
  { deliveryEvents }: Collections,
  events: DeliveryEventDocument[],
  session: ClientSession,
): Promise<void> {
  if (events.length > 0) await deliveryEvents.insertMany(events, { session, ordered: false })
}

/** A message that is stored by now is a duplicate key, whose error passes through. */
export async function writeDeliveryMessages(
  { deliveryMessages }: Collections,
  { added, changed }: { added: DeliveryMessageDocument[]; changed: readonly DeliveryMessageDocument[] },
  session: ClientSession,
): Promise<void> {
  if (added.length > 0) await deliveryMessages.insertMany(added, { session, ordered: false })
  if (changed.length > 0)
    await deliveryMessages.bulkWrite(
      changed.map((message) => ({ replaceOne: { filter: { _id: message._id }, replacement: message } })),
      { session, ordered: false },
    )
}

/** Writes first clicks, and earlier times of known ones. */
export async function writeClickedLinks(
  { clickedLinks }: Collections,
  { added, earlier }: { added: ClickedLinkDocument[]; earlier: readonly ClickedLinkDocument[] },
  session: ClientSession,
): Promise<void> {
  if (added.length > 0) await clickedLinks.insertMany(added, { session, ordered: false })
  if (earlier.length > 0)
    await clickedLinks.bulkWrite(
      earlier.map(({ _id, clicked_at }) => ({
        updateOne: { filter: { _id }, update: { $set: { clicked_at } } },
      })),
      { session, ordered: false },
    )
}

/** Counts are spread over this many documents, so that concurrent calls rarely conflict. */
const stripes = 8

/**
 * Adds differences to `autoresponder_days`, the counts of a day, and to `bounce_codes`, its bounces by code. `days` and
 * `codes` have the same keys, `<autoresponder>:<day>`.
 */
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

/** Deletes the counts of all days of an autoresponder. */
export async function deleteStatistics(
  { autoresponderDays, bounceCodes }: Collections,
  autoresponderId: number,
  session: ClientSession,
): Promise<void> {
  // In ASCII ";" follows ":".
  const _id = { $gte: `${autoresponderId}:`, $lt: `${autoresponderId};` }
  await autoresponderDays.deleteMany({ _id }, { session })
  await bounceCodes.deleteMany({ _id }, { session })
}
