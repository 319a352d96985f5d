import { isDuplicateKey } from '../runtime/database.ts'
import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'
import type { UploadUsageDocument } from '../contract/schemas/upload.ts'
import { countedWithin, fits, stagedBytes, type UsageNow } from './upload-usage.ts'

/**
 * What imports have staged, in the figures of their organization (upload-usage.ts): an entry for each import from its
 * creation until its files are gone. It bounds the bytes and the number of unfinished imports with one guarded write.
 */

export interface StagedLimits {
  /** `Infinity` is without a limit. */
  bytes: number
  /** Unfinished imports. */
  imports: number
}

const noFiles = { files: 0 }

/**
 * Enters an import that is about to be created, with the bytes of its source. False when that passes a limit, or when
 * the figures are older than `maxAgeMs`, or none. An import that is entered already is no error.
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
          ...fits({ bytes, ...noFiles }, { bytes: limits.bytes, files: Infinity }),
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

/** Figures that were never counted, where there are none: without a limit of bytes nobody counts. */
export async function makeUsage({ uploadUsage }: Collections, organizationId: number): Promise<void> {
  const initial = { revision: 0, bytes: 0, files: 0, uploads: [], counted_at: new Date(0) }
  await uploadUsage
    .updateOne({ _id: organizationId }, { $setOnInsert: initial }, { upsert: true })
    .catch((error: unknown) => {
      if (!isDuplicateKey(error)) throw error
    })
}

/**
 * The import's files are gone, or it wasn't created. What stays of it until its logs are purged is counted in the write
 * that removes its entry, so it is counted once, by the finalizer, the sweep or a count. Resolves to the usage after that
 * write; null when there was no entry.
 */
export async function leaveImport(
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

/** The logs of an ended import are gone. One of before there were figures of it leaves none below zero. */
export async function freeKept(
  { uploadUsage }: Collections,
  organizationId: number,
  bytes: number,
): Promise<void> {
  const kept = { $max: [0, { $subtract: [{ $ifNull: ['$kept', 0] }, bytes] }] }
  await uploadUsage.updateOne({ _id: organizationId }, [
    { $set: { kept, revision: { $add: ['$revision', 1] } } },
  ])
}

/** Says what an entered import has staged, whatever the limits. */
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
 * More bytes of an entered import's source. False when that passes the limit: of all that the organization keeps with
 * us, or with `within: 'staged'` of what its imports have staged.
 */
export async function growSource(
  { uploadUsage }: Collections,
  organizationId: number,
  { importId, bytes, within }: { importId: number; bytes: number; within: 'all' | 'staged' },
  maxBytes: number,
): Promise<boolean> {
  const condition =
    within === 'all'
      ? { $and: fits({ bytes, ...noFiles }, { bytes: maxBytes, files: Infinity }) }
      : { $lte: [{ $add: [stagedBytes, bytes] }, maxBytes] }
  const { matchedCount } = await uploadUsage.updateOne(
    { _id: organizationId, 'imports.import_id': importId, $expr: condition },
    { $inc: { 'imports.$.source': bytes } },
  )
  return matchedCount === 1
}

/**
 * Reserves the partition of an entered import. False when what the organization's imports have staged would pass the
 * limit, and another one of them has a partition: the only one is refused only where failed rows of ended imports fill
 * the quota alone, or a file that nearly fills the quota could not be imported.
 */
export async function reservePartition(
  { uploadUsage }: Collections,
  organizationId: number,
  { importId, bytes }: { importId: number; bytes: number },
  maxBytes: number,
): Promise<boolean> {
  const own = {
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
              { $lte: [{ $add: [{ $subtract: [stagedBytes, own] }, bytes] }, maxBytes] },
              { $eq: [{ $sum: '$imports.partition' }, own] },
            ],
          },
        ],
      },
    },
    { $set: { 'imports.$.partition': bytes } },
  )
  return matchedCount === 1
}

/** Bytes that are kept for imports under no name any more; false when the figures changed since they were read. */
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

/** How long a creation may take from its entry to its commit, and longer. */
const creationMs = 3_600_000

/**
 * Compares the entries with the imports: entries that no import needs (it was cleared up after, or its creation was
 * killed long ago), what stays of these until their logs are purged, and imports without an entry (created before there
 * were entries).
 */
export async function compareEntries(
  { imports }: Collections,
  organizationId: number,
  usage: UsageNow | null,
): Promise<{ gone: number[]; kept: number; missing: number[] }> {
  const notFinalized = await imports
    .find({ organization_id: organizationId, settled: false }, { projection: { _id: 1 } })
    .hint(notFinalizedIndex)
    .toArray()
  const needed = new Set(notFinalized.map(({ _id }) => _id))
  const entries = usage?.imports ?? []
  const others = entries.filter(({ import_id }) => !needed.has(import_id))
  const settled = await imports
    .find(
      { _id: { $in: others.map(({ import_id }) => import_id) }, settled: true },
      { projection: { 'totals.kept_bytes': 1 } },
    )
    .toArray()
  const ended = new Set(settled.map(({ _id }) => _id))
  const before = (usage?.now.getTime() ?? 0) - creationMs
  const entered = new Set(entries.map(({ import_id }) => import_id))
  return {
    gone: others
      .filter(({ import_id, entered_at }) => ended.has(import_id) || entered_at.getTime() < before)
      .map(({ import_id }) => import_id),
    kept: settled.reduce((sum, { totals }) => sum + (totals?.kept_bytes ?? 0), 0),
    missing: [...needed].filter((importId) => !entered.has(importId)),
  }
}

/** Enters imports that were created before there were entries. */
export async function enterMissing(
  { uploadUsage }: Collections,
  organizationId: number,
  importIds: number[],
): Promise<void> {
  for (const importId of importIds)
    await uploadUsage.updateOne(
      { _id: organizationId, 'imports.import_id': { $ne: importId } },
      withEntry(importId, 0),
    )
}

/** Imports of the organization that began with an upload and aren't cleared up after: they may have pins. */
export async function listImportsWithPins(
  { imports }: Collections,
  organizationId: number,
): Promise<number[]> {
  const found = await imports
    .find(
      { organization_id: organizationId, settled: false, 'source.type': 'upload_directory' },
      { projection: { _id: 1 } },
    )
    .hint(notFinalizedIndex)
    .toArray()
  return found.map(({ _id }) => _id)
}
