import type { ClientSession } from 'mongodb'
import { isDuplicateKey } from '../runtime/driver-errors.ts'
import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'
import type { UploadUsageDocument } from '../contract/schemas/upload.ts'
import { hourMs } from '../values/durations.ts'
import { countedWithin, limitConditions, stagedBytes, type UsageNow } from './upload-usage.ts'

/**
 * Bytes that imports have staged, as part of their organization's usage (upload-usage.ts). Each import has an entry
 * from its creation until its files are removed. One guarded write enforces the limits of bytes and of unfinished
 * imports.
 */

export interface StagedLimits {
  /** `Infinity` means no limit. */
  bytes: number
  /** Maximum of unfinished imports. */
  imports: number
}

const noFiles = { files: 0 }

/**
 * Adds the entry of an import that is about to be created, with the bytes of its source. False when a limit would be
 * exceeded, when the usage was counted longer than `maxAgeMs` ago or never, and when there is an entry already.
 */
export async function enterImport(
  { uploadUsage }: Collections,
  organizationId: number,
  { importId, bytes, maxAgeMs }: { importId: number; bytes: number; maxAgeMs: number },
  limits: StagedLimits,
): Promise<boolean> {
  const { matchedCount } = await uploadUsage.updateOne(
    {
      _id: organizationId,
      'imports.import_id': { $ne: importId },
      $expr: {
        $and: [
          ...(limits.bytes === Infinity ? [] : [countedWithin(maxAgeMs)]),
          ...limitConditions({ bytes, ...noFiles }, { bytes: limits.bytes, files: Infinity }),
          { $lt: [{ $size: { $ifNull: ['$imports', []] } }, limits.imports] },
        ],
      },
    },
    withEntry(importId, bytes),
  )
  return matchedCount === 1
}

const withEntry = (importId: number, source: number) => {
  const entry = { import_id: importId, source, partition: 0, entered_at: '$$NOW' }
  const imports = { $concatArrays: [{ $ifNull: ['$imports', []] }, [entry]] }
  return [{ $set: { imports, revision: { $add: ['$revision', 1] } } }]
}

/** Creates the usage of an organization where there is none. Without a limit of bytes it is never counted. */
export async function makeUsage({ uploadUsage }: Collections, organizationId: number): Promise<void> {
  const initial = { revision: 0, bytes: 0, files: 0, uploads: [], counted_at: new Date(0) }
  await uploadUsage
    .updateOne({ _id: organizationId }, { $setOnInsert: initial }, { upsert: true })
    .catch((error: unknown) => {
      if (!isDuplicateKey(error)) throw error
    })
}

/**
 * Removes the entry of an import whose files are removed, or that was not created. The same write adds the bytes that
 * stay until its logs are purged. So the finalizer, the sweep and a recount together add them only once. Resolves to
 * the usage after the write; null when there was no entry.
 */
export async function removeImportEntry(
  { imports, uploadUsage }: Collections,
  importId: number,
  organizationId?: number,
): Promise<UploadUsageDocument | null> {
  const ended = await imports.findOne({ _id: importId }, { projection: { 'totals.kept_bytes': 1 } })
  const kept = ended?.totals?.kept_bytes ?? 0
  return uploadUsage.findOneAndUpdate(
    {
      ...(organizationId === undefined ? {} : { _id: organizationId }),
      'imports.import_id': importId,
    },
    { $pull: { imports: { import_id: importId } }, $inc: { revision: 1, kept } },
    { returnDocument: 'after' },
  )
}

/** Frees the bytes of purged logs. */
export async function freeKept(
  { uploadUsage }: Collections,
  session: ClientSession,
  organizationId: number,
  bytes: number,
): Promise<void> {
  await uploadUsage.updateOne({ _id: organizationId }, { $inc: { kept: -bytes, revision: 1 } }, { session })
}

/** Sets the staged bytes of an import, without regard to the limits. */
export async function setStaged(
  { uploadUsage }: Collections,
  organizationId: number,
  importId: number,
  { source, partition }: { source?: number; partition?: number },
): Promise<void> {
  await uploadUsage.updateOne(
    { _id: organizationId, 'imports.import_id': importId },
    {
      $set: {
        ...(source === undefined ? {} : { 'imports.$.source': source }),
        ...(partition === undefined ? {} : { 'imports.$.partition': partition }),
      },
    },
  )
}

/**
 * Adds bytes to the source of an import. False when that would exceed the limit: for all storage of the organization,
 * or with `within: 'staged'` for its staged bytes.
 */
export async function growSource(
  { uploadUsage }: Collections,
  organizationId: number,
  { importId, bytes, within }: { importId: number; bytes: number; within: 'all' | 'staged' },
  maxBytes: number,
): Promise<boolean> {
  const condition =
    within === 'all'
      ? { $and: limitConditions({ bytes, ...noFiles }, { bytes: maxBytes, files: Infinity }) }
      : { $lte: [{ $add: [stagedBytes, bytes] }, maxBytes] }
  const { matchedCount } = await uploadUsage.updateOne(
    { _id: organizationId, 'imports.import_id': importId, $expr: condition },
    { $inc: { 'imports.$.source': bytes } },
  )
  return matchedCount === 1
}

/**
 * Reserves the partition of an import. False when the staged bytes of the organization would exceed the limit and
 * another of its imports has a partition. The only partition of an organization is refused only where the failed rows
 * of ended imports alone exceed the quota. Otherwise a file that nearly fills the quota could never be imported.
 */
export async function reservePartition(
  { uploadUsage }: Collections,
  organizationId: number,
  { importId, bytes }: { importId: number; bytes: number },
  maxBytes: number,
): Promise<boolean> {
  const ownPartition = {
    $sum: {
      $map: {
        input: { $filter: { input: '$imports', cond: { $eq: ['$$this.import_id', importId] } } },
        in: '$$this.partition',
      },
    },
  }
  const { matchedCount } = await uploadUsage.updateOne(
    {
      _id: organizationId,
      'imports.import_id': importId,
      $expr: {
        $and: [
          { $lte: [{ $ifNull: ['$kept', 0] }, maxBytes] },
          {
            $or: [
              { $lte: [{ $add: [{ $subtract: [stagedBytes, ownPartition] }, bytes] }, maxBytes] },
              { $eq: [{ $sum: '$imports.partition' }, ownPartition] },
            ],
          },
        ],
      },
    },
    { $set: { 'imports.$.partition': bytes } },
  )
  return matchedCount === 1
}

/**
 * Sets the bytes of pinned files without a name. An optimistic lock: false when the usage has changed since it was
 * read.
 */
export async function setPinned(
  { uploadUsage }: Collections,
  { _id, revision }: UploadUsageDocument,
  pinned: number,
): Promise<boolean> {
  const { matchedCount } = await uploadUsage.updateOne(
    { _id, revision },
    { $set: { pinned }, $inc: { revision: 1 } },
  )
  return matchedCount === 1
}

/** More than a creation can take from its entry to its commit. */
const maxCreationMs = hourMs

/**
 * Compares the entries with the imports. `gone` are entries of finalized imports and of creations that were killed
 * long ago. `kept` are the bytes that stay of them until their logs are purged.
 */
export async function compareEntries(
  { imports }: Collections,
  organizationId: number,
  usage: UsageNow | null,
): Promise<{ gone: number[]; kept: number }> {
  const notFinalized = await imports
    .find({ organization_id: organizationId, finalized: false }, { projection: { _id: 1 } })
    .hint(notFinalizedIndex)
    .toArray()
  const needed = new Set(notFinalized.map(({ _id }) => _id))
  const entries = usage?.imports ?? []
  const unneeded = entries.filter(({ import_id }) => !needed.has(import_id))
  const finalized = await imports
    .find(
      { _id: { $in: unneeded.map(({ import_id }) => import_id) }, finalized: true },
      { projection: { 'totals.kept_bytes': 1 } },
    )
    .toArray()
  const finalizedIds = new Set(finalized.map(({ _id }) => _id))
  const before = (usage?.now.getTime() ?? 0) - maxCreationMs
  return {
    gone: unneeded
      .filter(({ import_id, entered_at }) => finalizedIds.has(import_id) || entered_at.getTime() < before)
      .map(({ import_id }) => import_id),
    kept: finalized.reduce((sum, { totals }) => sum + (totals?.kept_bytes ?? 0), 0),
  }
}

/** Ids of the organization's imports of uploads that aren't finalized. They may have pins. */
export async function listImportsWithPins(
  { imports }: Collections,
  organizationId: number,
): Promise<number[]> {
  const found = await imports
    .find(
      { organization_id: organizationId, finalized: false, 'source.type': 'upload_directory' },
      { projection: { _id: 1 } },
    )
    .hint(notFinalizedIndex)
    .toArray()
  return found.map(({ _id }) => _id)
}
