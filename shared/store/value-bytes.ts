import { BSON, MongoServerError, type AggregateOptions } from 'mongodb'
import { cleared, type Decision, type SubscriberUpdate } from '../csv/row-decision.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { FieldValue } from '../contract/schemas/custom-field.ts'
import type { ImportPlan } from '../contract/schemas/import.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'
import type { CellValue } from '../values/field-value.ts'
import { TextBytes } from '../values/text-bytes.ts'

/**
 * Limits of the total size of a subscriber's custom fields, so that neither an update nor a row meets the database's
 * limit of 16 MB. Sizes are measured by the database when they matter: stored in the subscriber they would be one more
 * number to keep, and `$bsonSize` in each update's filter would take the server off its fast path for `_id`, for every
 * row. Rows of up to 64 KiB are not compared with what is stored. What the database refuses all the same is a failed row.
 */

/** Bytes as BSON. With 1 MiB a row of the largest record with defaults wouldn't fit; 8 MiB may exceed a page as JSON. */
const maxValueBytes = 4 * binaryMegabyte

export const valuesTooLarge = `the subscriber's custom fields would hold more than ${maxValueBytes} bytes together`

/** Bytes of one value with its name. */
export const valueBytes = (fieldId: number, value: CellValue): number =>
  BSON.calculateObjectSize({ [fieldId]: value instanceof TextBytes ? value.toString() : value }) - emptyBytes

export const valuesBytes = (values: Record<string, FieldValue>): number =>
  BSON.calculateObjectSize(values) - emptyBytes

/** Bytes of a document without fields. */
export const emptyBytes = BSON.calculateObjectSize({})

/**
 * Whether a stored subscriber's custom fields have space for the values, in addition to all that it has: an expression of
 * the database. It is exact enough for a guard. Where it is false, only a transaction can tell.
 */
export const hasSpaceFor = (values: Record<string, FieldValue>): Record<string, unknown> => ({
  $lte: [{ $bsonSize: '$custom_fields' }, maxValueBytes - valuesBytes(values)],
})

/** A subscriber that exceeds the limit keeps its values, and may only get smaller. */
export const isGrownTooLarge = (before: number, after: number): boolean =>
  after > maxValueBytes && after > before

/** Whether the database refused a write because the document would be larger than 16 MB. */
export const isDocumentTooLarge = (error: unknown): boolean =>
  error instanceof MongoServerError &&
  (tooLargeCodes.has(error.code) || error.message.startsWith('object to insert too large'))

/**
 * BSONObjectTooLarge, and the codes of an update and a replacement. An insertion fails with the code of any bad
 * value.
 */
const tooLargeCodes = new Set<unknown>([10334, 17419, 17420])

/** Bytes of each value, by the subscriber's `_id` and the field's id. */
export type ValueSizes = ReadonlyMap<string, ReadonlyMap<string, number>>

/** Sizes of the custom fields of subscribers, as valueBytes measures them. The server computes them. */
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

/** Whether the decision would make the custom fields of the subscriber too large. `sizes` are their present sizes. */
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
  return isGrownTooLarge(before, kept + writtenBytes(values, plan))
}

export const noSizes: ReadonlyMap<string, number> = new Map()

/** Bytes of the written values, which are in the order of the plan's fields. */
export const writtenBytes = (values: SubscriberUpdate['values'], plan: ImportPlan): number =>
  plan.fields.reduce((sum, { id }, i) => {
    const value = values[i]
    return sum + (value === null || value === undefined || value === cleared ? 0 : valueBytes(id, value))
  }, 0)
