import type { ClientSession } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import { hourMs } from '../values/durations.ts'
import { limitConditions, stagedBytes } from './ledger.ts'

/**
 * Bytes that imports have staged, as part of their organization's ledger (ledger.ts). Each import has an entry
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
 * exceeded, when there is no ledger, and when there is an entry already.
 */
export async function enterImport(
  { ledgers }: Collections,
  organizationId: number,
  { importId, bytes }: { importId: number; bytes: number },
  limits: StagedLimits,
): Promise<boolean> {
  const { matchedCount } = await ledgers.updateOne(
    {
      _id: organizationId,
      'imports.import_id': { $ne: importId },
      $expr: {
        $and: [
          ...limitConditions({ bytes, ...noFiles }, { bytes: limits.bytes, files: Infinity }),
          { $lt: [{ $size: '$imports' }, limits.imports] },
        ],
      },
    },
    withEntry(importId, bytes),
  )
  return matchedCount === 1
}

const withEntry = (importId: number, source: number) => {
  const entry = { import_id: importId, source, partition: 0, entered_at: '$$NOW' }
  return [{ $set: { imports: { $concatArrays: ['$imports', [entry]] } } }]
}

/**
 * Removes the entry of an import whose files are removed, or that was not created. The same write adds the bytes that
 * stay until its logs are purged. So a finalization and the sweep together add them only once.
 */
export async function removeImportEntry(
  { imports, ledgers }: Collections,
  importId: number,
  { organizationId, keptBytes }: { organizationId?: number; keptBytes?: number | undefined } = {},
): Promise<void> {
  const kept = keptBytes ?? (await readKeptBytes(imports, importId))
  await ledgers.updateOne(
    { ...(organizationId === undefined ? {} : { _id: organizationId }), 'imports.import_id': importId },
    { $pull: { imports: { import_id: importId } }, $inc: { kept } },
  )
}

async function readKeptBytes(imports: Collections['imports'], importId: number): Promise<number> {
  const ended = await imports.findOne({ _id: importId }, { projection: { 'totals.kept_bytes': 1 } })
  return ended?.totals?.kept_bytes ?? 0
}

/** Frees the bytes of purged logs. */
export async function freeKept(
  { ledgers }: Collections,
  session: ClientSession,
  organizationId: number,
  bytes: number,
): Promise<void> {
  await ledgers.updateOne({ _id: organizationId }, { $inc: { kept: -bytes } }, { session })
}

/** Sets the staged bytes of an import, without regard to the limits. */
export async function setStaged(
  { ledgers }: Collections,
  organizationId: number,
  importId: number,
  { source, partition }: { source?: number; partition?: number },
): Promise<void> {
  await ledgers.updateOne(
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
  { ledgers }: Collections,
  organizationId: number,
  { importId, bytes, within }: { importId: number; bytes: number; within: 'all' | 'staged' },
  maxBytes: number,
): Promise<boolean> {
  const condition =
    within === 'all'
      ? { $and: limitConditions({ bytes, ...noFiles }, { bytes: maxBytes, files: Infinity }) }
      : { $lte: [{ $add: [stagedBytes, bytes] }, maxBytes] }
  const { matchedCount } = await ledgers.updateOne(
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
  { ledgers }: Collections,
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
  const { matchedCount } = await ledgers.updateOne(
    {
      _id: organizationId,
      'imports.import_id': importId,
      $expr: {
        $and: [
          { $lte: ['$kept', maxBytes] },
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

/** More than a creation can take from its entry to its commit. */
const maxCreationMs = hourMs

/** Removes the entries of creations that were killed. Those of imports that ended go with their files. */
export async function removeLostEntries(collections: Collections, organizationId?: number): Promise<void> {
  const before = { $subtract: ['$$NOW', maxCreationMs] }
  const ledger = organizationId === undefined ? {} : { _id: organizationId }
  const old = await collections.ledgers
    .aggregate<{ _id: number }>([
      { $match: { ...ledger, 'imports.0': { $exists: true } } },
      { $unwind: '$imports' },
      { $match: { $expr: { $lt: ['$imports.entered_at', before] } } },
      { $project: { _id: '$imports.import_id' } },
    ])
    .toArray()
  const ids = old.map(({ _id }) => _id)
  const needed = await collections.imports
    .find({ _id: { $in: ids }, finalized: false }, { projection: { _id: 1 } })
    .toArray()
  const neededIds = new Set(needed.map(({ _id }) => _id))
  for (const id of ids) if (!neededIds.has(id)) await removeImportEntry(collections, id)
}
