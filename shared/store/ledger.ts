import type { ClientSession } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import { isDuplicateKey } from '../runtime/driver-errors.ts'
import { decimalMegabyte } from '../values/byte-sizes.ts'

/**
 * What an organization's quota is charged with: one document. Its bytes and files change in the transaction that makes,
 * changes or ends the record of an upload (uploads.ts), so they are always exact. The staged bytes of imports have an
 * entry for each import (staged-usage.ts).
 */

/** `Infinity` means no limit. */
export interface UploadLimits {
  files: number
  bytes: number
}

export const noLimits: UploadLimits = { files: Infinity, bytes: Infinity }

/** The settings as limits; 0 means no limit. */
export const uploadLimits = (settings: {
  UPLOAD_MAX_FILES: number
  UPLOAD_MAX_MB: number
}): UploadLimits => ({
  files: settings.UPLOAD_MAX_FILES === 0 ? Infinity : settings.UPLOAD_MAX_FILES,
  bytes: settings.UPLOAD_MAX_MB === 0 ? Infinity : settings.UPLOAD_MAX_MB * decimalMegabyte,
})

/** An expression: the bytes that the imports of an organization have staged. */
export const stagedBytes = { $add: [{ $sum: '$imports.source' }, { $sum: '$imports.partition' }] }

const totals = { bytes: { $add: ['$bytes', stagedBytes, '$kept'] }, files: '$files' }

/** Conditions for the ledger to stay within the limits. A limit of Infinity, which is no BSON integer, has none. */
export const limitConditions = (
  more: { bytes: number; files: number },
  limits: UploadLimits,
): Record<string, unknown>[] =>
  (['bytes', 'files'] as const)
    .filter((field) => limits[field] !== Infinity && more[field] > 0)
    .map((field) => ({ $lte: [{ $add: [totals[field], more[field]] }, limits[field]] }))

/** Creates the ledger of an organization where there is none. */
export async function makeLedger({ ledgers }: Collections, organizationId: number): Promise<void> {
  const initial = { bytes: 0, files: 0, changes: 0, imports: [], kept: 0 }
  await ledgers
    .updateOne({ _id: organizationId }, { $setOnInsert: initial }, { upsert: true })
    .catch((error: unknown) => {
      if (!isDuplicateKey(error)) throw error
    })
}

/** Charges the ledger, or frees what is negative. False, without a change, where a limit would be exceeded. */
export async function charge(
  { ledgers }: Collections,
  session: ClientSession,
  organizationId: number,
  more: { bytes: number; files: number },
  limits: UploadLimits = noLimits,
): Promise<boolean> {
  const conditions = limitConditions(more, limits)
  const { matchedCount } = await ledgers.updateOne(
    { _id: organizationId, ...(conditions.length === 0 ? {} : { $expr: { $and: conditions } }) },
    { $inc: { ...more, changes: 1 } },
    { session },
  )
  return matchedCount === 1
}
