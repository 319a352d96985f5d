import { BSON, MongoServerError } from 'mongodb'
import type { FieldValue } from '../schemas/custom-field.ts'

/** Bounds of what a subscriber's custom fields hold together: docs/decisions/137-bytes-of-a-subscriber.md. */

/** Bytes in the database, which takes 16 MB for a document. */
export const maxValueBytes = 4 * 1024 * 1024

export const valuesTooLarge = `the subscriber's custom fields would hold more than ${maxValueBytes} bytes together`

/** Of one value, with its name. */
export const valueBytes = (fieldId: number, value: FieldValue): number =>
  BSON.calculateObjectSize({ [fieldId]: value }) - emptyBytes

export const valuesBytes = (values: Record<string, FieldValue>): number =>
  BSON.calculateObjectSize(values) - emptyBytes

/** Of an object without values. */
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
