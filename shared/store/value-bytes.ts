import { BSON, MongoServerError, type AggregateOptions } from 'mongodb'
import { cleared, type Decision, type SubscriberUpdate } from '../csv/row-decision.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { FieldValue } from '../contract/schemas/custom-field.ts'
import type { ImportPlan } from '../contract/schemas/import.ts'

/** Bounds of what a subscriber's custom fields hold together: docs/decisions/137-bytes-of-a-subscriber.md. */

/** Bytes in the database, which takes 16 MB for a document. */
export const maxValueBytes = 4 * 1024 * 1024

export const valuesTooLarge = `the subscriber's custom fields would hold more than ${maxValueBytes} bytes together`

/** Of one value, with its name. */
export const valueBytes = (fieldId: number, value: FieldValue): number =>
  BSON.calculateObjectSize({ [fieldId]: value }) - emptyBytes

export const valuesBytes = (values: Record<string, FieldValue>): number =>
  BSON.calculateObjectSize(values) - emptyBytes

/** Of a document without fields. */
export const emptyBytes = BSON.calculateObjectSize({})

/** A subscriber that has more since an earlier version keeps it, and may only hold less. */
export const isGrownTooLarge = (before: number, after: number): boolean =>
  after > maxValueBytes && after > before

/** The database refused a document for its size: the write would make it larger than 16 MB. */
export const isDocumentTooLarge = (error: unknown): boolean =>
  error instanceof MongoServerError &&
  (tooLargeCodes.has(error.code) || error.message.startsWith('object to insert too large'))

/** BSONObjectTooLarge, and those of an update and a replacement. An insertion has the code of any bad value. */
const tooLargeCodes = new Set<unknown>([10334, 17419, 17420])

/** Bytes of each value, by the subscriber's `_id` and the field's id. */
export type ValueSizes = ReadonlyMap<string, ReadonlyMap<string, number>>

/** What the custom fields of subscribers hold, without reading it: measured as valueBytes measures. */
export async function findValueSizes(
  { subscribers }: Collections,
  keys: string[],
  options: AggregateOptions = {},
): Promise<ValueSizes> {
  const bytes = { $subtract: [{ $bsonSize: { $arrayToObject: [['$$this']] } }, emptyBytes] }
  const sizes = { $map: { input: { $objectToArray: '$custom_fields' }, in: ['$$this.k', bytes] } }
  const found = await subscribers
    .aggregate<{ _id: string; sizes: [string, number][] }>(
      [{ $match: { _id: { $in: keys } } }, { $project: { sizes } }],
      options,
    )
    .toArray()
  return new Map(found.map((subscriber) => [subscriber._id, new Map(subscriber.sizes)]))
}

/** Whether the subscriber would hold more than one may, by what it holds now. */
export function makesTooLarge(
  decision: Extract<Decision, { result: 'added' | 'updated' }>,
  plan: ImportPlan,
  sizes: ReadonlyMap<string, number>,
): boolean {
  const { values } = decision.result === 'added' ? decision.subscriber : decision.update
  let before = 0
  for (const size of sizes.values()) before += size
  const replaced = plan.fields.map(({ id }, i) => (values[i] === null ? 0 : (sizes.get(String(id)) ?? 0)))
  const kept = before - replaced.reduce((sum, size) => sum + size, 0)
  return isGrownTooLarge(before, kept + bytesOf(values, plan))
}

export const noSizes: ReadonlyMap<string, number> = new Map()

/** Of the values that are written, which are in the order of the plan's fields. */
export const bytesOf = (values: SubscriberUpdate['values'], plan: ImportPlan): number =>
  plan.fields.reduce((sum, { id }, i) => {
    const value = values[i]
    return sum + (value === null || value === undefined || value === cleared ? 0 : valueBytes(id, value))
  }, 0)
