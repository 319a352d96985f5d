import type { ClientSession, Document } from 'mongodb'
import { unfinishedStates } from '../contract/import-state.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { UploadDocument } from '../contract/schemas/upload.ts'
import { isDuplicateKey } from '../runtime/driver-errors.ts'
import { charge, type UploadLimits } from './ledger.ts'
import { keyRanges } from './key-ranges.ts'
import type { LedgerTransactions } from './ledger-transactions.ts'
import { judgeName, nameAndFolder, namesIn, withName, type NameRefusal } from './upload-folders.ts'

/**
 * The records of uploads. Each move that changes bytes or names is one transaction with the ledger of the organization,
 * and conflicts with every other such move of the organization. A name has at most one finished and one unfinished
 * record, which a unique index enforces. Bytes of a finished file never change, so a pin is the id of an import in its
 * record. A record without its name stays as `detached` while it is pinned.
 *
 * Moves return the blobs that no record refers to any more. The caller removes them after the commit.
 */

/** After this time the upload of a dead process can be resumed. */
export const uploadLeaseMs = 15_000
export const uploadRenewalMs = 4_000

/** Charged at the beginning of an upload of unknown size. Small ones, the usual case, need no other charge. */
const firstBytes = 64 * 1024

const leaseEnd = { $add: ['$$NOW', uploadLeaseMs] }

export interface FoundUpload extends UploadDocument {
  /** By the database's clock. */
  is_leased: boolean
}

/** The finished and the unfinished record of a name. */
export interface UploadPair {
  finished: FoundUpload | null
  unfinished: FoundUpload | null
}

interface Uploads {
  collections: Collections
  ledger: LedgerTransactions
}

const withLease = [{ $set: { is_leased: { $gt: ['$lease.until', '$$NOW'] } } }]

/** Records of an organization that have a name, or of those in a folder, by name. */
export function listUploads(
  { uploads }: Collections,
  organizationId: number,
  { folder, state }: { folder: string | null; state?: 'finished' },
): Promise<UploadDocument[]> {
  const states = state === undefined ? withName : { state }
  const names = folder === null ? {} : { name: namesIn(folder) }
  return uploads
    .find({ organization_id: organizationId, ...names, ...states })
    .sort({ name: 1 })
    .toArray()
}

export async function findPair(
  collections: Collections,
  organizationId: number,
  name: string,
  session?: ClientSession,
): Promise<UploadPair> {
  const named = { organization_id: organizationId, name, ...withName }
  return toPair(await findWithLease(collections, [{ $match: named }], session), name)
}

/**
 * The pair of a name that is to have a file. Throws NameRefused where it can't have one. `own`: the folder of the caller's
 * key.
 */
async function findTarget(
  collections: Collections,
  organizationId: number,
  { name, own }: { name: string; own: string | null },
  session: ClientSession,
): Promise<UploadPair> {
  const names = nameAndFolder(name, own)
  const named = [{ $match: { organization_id: organizationId, ...names, ...withName } }]
  const first = '$or' in names ? [...named, { $sort: { name: 1 } }, { $limit: maxRecordsOfTarget }] : named
  const records = await findWithLease(collections, first, session)
  const pair = toPair(records, name)
  if (isName(pair)) return pair
  const found = records.map((record) => record.name)
  const refusal = await judgeName(collections, session, organizationId, { name, own, found })
  if (refusal !== null) throw new NameRefused(refusal)
  return pair
}

/** Two of the name, and one in the folder of that name. */
const maxRecordsOfTarget = 3

/** The name can't have a file. */
export class NameRefused extends Error {
  override readonly name = 'NameRefused'
  readonly refusal: NameRefusal

  constructor(refusal: NameRefusal) {
    super(refusal)
    this.refusal = refusal
  }
}

const findWithLease = (
  { uploads }: Collections,
  stages: Document[],
  session?: ClientSession,
): Promise<FoundUpload[]> =>
  uploads
    .aggregate<FoundUpload>([...stages, ...withLease], session === undefined ? {} : { session })
    .toArray()

function toPair(found: readonly FoundUpload[], name: string): UploadPair {
  const find = (state: UploadDocument['state']) =>
    found.find((record) => record.state === state && record.name === name) ?? null
  return { finished: find('finished'), unfinished: find('unfinished') }
}

const isName = ({ finished, unfinished }: UploadPair): boolean => finished !== null || unfinished !== null

export interface BegunUpload {
  record: UploadDocument
  before: UploadPair
}

/**
 * Makes the unfinished record of a name, or takes it over. `decide` says from what is there with how many bytes the
 * upload begins and what it will have, where that is known. What it throws is thrown, and NameRefused. Null over a limit.
 * `own`: the folder of the caller's key.
 */
export function beginUpload(
  { collections, ledger }: Uploads,
  upload: { organizationId: number; name: string; own: string | null; token: string; blob: string },
  decide: (pair: UploadPair) => Promise<{ start: number; expected: number | null }>,
  limits: UploadLimits,
): Promise<BegunUpload | null> {
  const { organizationId, name, own, token, blob } = upload
  return ledger.change(organizationId, async (session) => {
    const before = await findTarget(collections, organizationId, { name, own }, session)
    const { unfinished } = before
    const { start, expected } = await decide(before)
    const present = unfinished?.charged ?? 0
    // One byte more than the present size, so that a full directory refuses the upload at its beginning.
    const min = Math.max(expected ?? start + 1, present)
    const tryCharge = (bytes: number) => {
      const more = { bytes: bytes - present, files: isName(before) ? 0 : 1 }
      return charge(collections, session, organizationId, more, limits)
    }
    let charged = expected === null ? min + firstBytes : min
    if (!(await tryCharge(charged))) {
      charged = min
      if (expected !== null || !(await tryCharge(charged))) return null
    }
    const record: UploadDocument = {
      ...{ _id: unfinished?._id ?? token, organization_id: organizationId, name, state: 'unfinished' },
      ...{ blob: unfinished?.blob ?? blob, size: unfinished?.size ?? 0, charged, pinned_by: [] },
      ...{ modified_at: unfinished?.modified_at ?? new Date(0), lease: null },
    }
    await collections.uploads.updateOne(
      { _id: record._id },
      [
        {
          $set: {
            ...record,
            name: { $literal: name },
            modified_at: unfinished?.modified_at ?? '$$NOW',
            lease: { token, until: leaseEnd },
          },
        },
      ],
      { session, upsert: true },
    )
    return { record, before }
  })
}

const heldBy = ({ _id }: UploadDocument, token: string) =>
  ({ _id, 'lease.token': token, state: 'unfinished' }) as const

/** False when another session has taken over the upload. */
export async function renewUpload(
  { uploads }: Collections,
  record: UploadDocument,
  token: string,
): Promise<boolean> {
  const { matchedCount } = await uploads.updateOne(heldBy(record, token), [
    { $set: { 'lease.until': leaseEnd } },
  ])
  return matchedCount === 1
}

/** Gives the upload another blob. False when another session has taken it over. */
export async function replaceBlob(
  { uploads }: Collections,
  record: UploadDocument,
  token: string,
  blob: string,
): Promise<boolean> {
  const { matchedCount } = await uploads.updateOne(heldBy(record, token), { $set: { blob } })
  return matchedCount === 1
}

/** Charges `wanted` bytes more, or `min` where they don't fit. Resolves to what was charged; null over the quota. */
export function growUpload(
  { collections, ledger }: Uploads,
  record: UploadDocument,
  { token, wanted, min }: { token: string; wanted: number; min: number },
  limits: UploadLimits,
): Promise<number | null> {
  const { organization_id: organizationId } = record
  return ledger.change(organizationId, async (session) => {
    for (const bytes of [wanted, min]) {
      if (!(await charge(collections, session, organizationId, { bytes, files: 0 }, limits))) continue
      const grown = { $inc: { charged: bytes } }
      const { matchedCount } = await collections.uploads.updateOne(heldBy(record, token), grown, { session })
      if (matchedCount === 0) throw new UploadLost()
      return bytes
    }
    return null
  })
}

/** Another session has taken over the upload. */
export class UploadLost extends Error {
  override readonly name = 'UploadLost'
}

/** Makes the unfinished record the finished one of its name. Throws UploadLost. */
export async function publishUpload(
  { collections, ledger }: Uploads,
  record: UploadDocument,
  { token, size }: { token: string; size: number },
): Promise<string[]> {
  const { organization_id: organizationId, name } = record
  const publish = (replaces: boolean) =>
    ledger.change(organizationId, async (session) => {
      const old = replaces
        ? await collections.uploads.findOne(
            { organization_id: organizationId, name, state: 'finished' },
            { session },
          )
        : null
      const { freed, unused } = await detach(collections, session, old)
      // Its charge may have been corrected while its process was suspended.
      const before = await collections.uploads.findOneAndUpdate(
        heldBy(record, token),
        [{ $set: { state: 'finished', size, charged: size, modified_at: '$$NOW', lease: null } }],
        { session },
      )
      if (before === null) throw new UploadLost()
      await charge(collections, session, organizationId, { bytes: size - before.charged - freed, files: 0 })
      return unused
    })
  try {
    return await publish(false)
  } catch (error) {
    // The name has a finished file. Most have none, so it isn't read first.
    if (!isDuplicateKey(error)) throw error
    return publish(true)
  }
}

/** Takes the name from a record: removes it, or keeps it for the imports that have pinned it. */
async function detach(
  { uploads }: Collections,
  session: ClientSession,
  record: UploadDocument | null,
): Promise<{ freed: number; unused: string[] }> {
  if (record === null) return { freed: 0, unused: [] }
  const { _id, pinned_by, charged, blob } = record
  if (pinned_by.length > 0) {
    await uploads.updateOne({ _id }, { $set: { state: 'detached' } }, { session })
    return { freed: 0, unused: [] }
  }
  await uploads.deleteOne({ _id }, { session })
  return { freed: charged, unused: [blob] }
}

/** Ends the session of an unfinished upload, which keeps `size` bytes. Changes nothing when it was taken over. */
export async function releaseUpload(
  { collections, ledger }: Uploads,
  record: UploadDocument,
  { token, size }: { token: string; size: number },
): Promise<void> {
  const { organization_id: organizationId } = record
  await ledger.change(organizationId, async (session) => {
    const before = await collections.uploads.findOneAndUpdate(
      heldBy(record, token),
      [{ $set: { size, charged: size, modified_at: '$$NOW', lease: null } }],
      { session },
    )
    if (before !== null)
      await charge(collections, session, organizationId, { bytes: size - before.charged, files: 0 })
  })
}

/** Removes an unfinished upload, where `isStill` says so of its present record. */
export function removeUnfinished(
  { collections, ledger }: Uploads,
  { _id, organization_id: organizationId, name }: UploadDocument,
  isStill: (record: FoundUpload) => boolean,
): Promise<string[]> {
  return ledger.change(organizationId, async (session) => {
    const { finished, unfinished } = await findPair(collections, organizationId, name, session)
    if (unfinished?._id !== _id || !isStill(unfinished)) return []
    const { freed, unused } = await detach(collections, session, unfinished)
    await charge(collections, session, organizationId, { bytes: -freed, files: finished === null ? -1 : 0 })
    return unused
  })
}

/** The record of a finished file with this blob; null when there is none. */
export const findFinished = ({ uploads }: Collections, blob: string): Promise<UploadDocument | null> =>
  uploads.findOne({ blob, state: 'finished' })

/** Removes the finished file of a name, with `blob` only where it has that. Null when there is none. */
export function removeFinished(
  { collections, ledger }: Uploads,
  organizationId: number,
  name: string,
  blob?: string,
): Promise<string[] | null> {
  return ledger.change(organizationId, async (session) => {
    const { finished, unfinished } = await findPair(collections, organizationId, name, session)
    if (finished === null || (blob !== undefined && finished.blob !== blob)) return null
    const { freed, unused } = await detach(collections, session, finished)
    await charge(collections, session, organizationId, { bytes: -freed, files: unfinished === null ? -1 : 0 })
    return unused
  })
}

/**
 * Renames the finished file, and replaces one of the new name. `over_quota`: one name too many. Throws NameRefused. `own`:
 * the folder of the caller's key, in which both names are.
 */
export function renameUpload(
  { collections, ledger }: Uploads,
  organizationId: number,
  { from, to, own }: { from: string; to: string; own: string | null },
  limits: UploadLimits,
): Promise<string[] | 'missing' | 'over_quota'> {
  return ledger.change(organizationId, async (session) => {
    const source = await findPair(collections, organizationId, from, session)
    if (source.finished === null) return 'missing'
    if (from === to) return []
    const target = await findTarget(collections, organizationId, { name: to, own }, session)
    const files = Number(!isName(target)) - Number(source.unfinished === null)
    if (!(await charge(collections, session, organizationId, { bytes: 0, files }, limits)))
      return 'over_quota'
    const { freed, unused } = await detach(collections, session, target.finished)
    await collections.uploads.updateOne({ _id: source.finished._id }, { $set: { name: to } }, { session })
    if (freed > 0) await charge(collections, session, organizationId, { bytes: -freed, files: 0 })
    return unused
  })
}

/** Sets the time of the finished file, in whole seconds. False when there is none. */
export async function setUploadTime(
  { uploads }: Collections,
  organizationId: number,
  name: string,
  time: Date,
): Promise<boolean> {
  const { matchedCount } = await uploads.updateOne(
    { organization_id: organizationId, name, state: 'finished' },
    { $set: { modified_at: time } },
  )
  return matchedCount === 1
}

/** Keeps the present file of a name for an import that is about to begin. Null when there is no such file. */
export function pinUpload(
  { uploads }: Collections,
  { organizationId, name, importId }: { organizationId: number; name: string; importId: number },
): Promise<UploadDocument | null> {
  return uploads.findOneAndUpdate(
    { organization_id: organizationId, name, state: 'finished' },
    { $addToSet: { pinned_by: importId } },
    { returnDocument: 'after' },
  )
}

/** Removes the pins of an import. */
export async function unpinUploads({ collections, ledger }: Uploads, importId: number): Promise<string[]> {
  const unusedBlobs: string[] = []
  for (const { _id, organization_id: organizationId } of await collections.uploads
    .find({ pinned_by: importId, 'pinned_by.0': { $exists: true } })
    .toArray())
    unusedBlobs.push(
      ...(await ledger.change(organizationId, async (session) => {
        const record = await collections.uploads.findOneAndUpdate(
          { _id },
          { $pull: { pinned_by: importId } },
          { session, returnDocument: 'after' },
        )
        if (record?.state !== 'detached') return []
        const { freed, unused } = await detach(collections, session, record)
        if (freed > 0) await charge(collections, session, organizationId, { bytes: -freed, files: 0 })
        return unused
      })),
    )
  return unusedBlobs
}

/** Ids of imports that have pins. */
export const listPinningImports = ({ uploads }: Collections): Promise<number[]> =>
  uploads.distinct('pinned_by', { 'pinned_by.0': { $exists: true } })

/** Unfinished uploads whose lease has ended, or that have none, since that time. */
export function listAbandoned({ uploads }: Collections, forMs: number): Promise<FoundUpload[]> {
  const since = { $max: ['$modified_at', '$lease.until'] }
  return uploads
    .aggregate<FoundUpload>([
      { $match: { state: 'unfinished' } },
      ...withLease,
      { $match: { $expr: { $lt: [since, { $subtract: ['$$NOW', forMs] }] } } },
    ])
    .toArray()
}

/** They are hexadecimal. */
const allIds = { $gte: '', $lt: 'g' }

/** What the console uploads for one import begins so. */
const consoleName = /^(?:[^/]+\/)?\.console-/

/** Uploads for imports that the console left behind: as old as that, and named or pinned by no unfinished import. */
export async function listLeftByConsole({ uploads }: Collections, forMs: number): Promise<FoundUpload[]> {
  const users = {
    from: 'imports',
    let: { organization: '$organization_id', name: '$name' },
    pipeline: [
      { $match: { state: { $in: [...unfinishedStates] }, 'source.type': 'upload_directory' } },
      {
        $match: {
          $expr: {
            $and: [{ $eq: ['$organization_id', '$$organization'] }, { $eq: ['$source.filename', '$$name'] }],
          },
        },
      },
    ],
    as: 'users',
  }
  const found: FoundUpload[] = []
  for await (const _id of keyRanges(uploads, allIds))
    found.push(
      ...(await uploads
        .aggregate<FoundUpload>([
          { $match: { _id, name: consoleName, ...withName, pinned_by: [] } },
          { $match: { $expr: { $lt: ['$modified_at', { $subtract: ['$$NOW', forMs] }] } } },
          { $lookup: users },
          { $match: { users: [] } },
          ...withLease,
        ])
        .toArray()),
    )
  return found
}

/** Charges an upload whose process has died with the bytes that it has, instead of those that were reserved ahead. */
export async function correctCharge(
  { collections, ledger }: Uploads,
  { _id, organization_id: organizationId, lease }: UploadDocument,
  size: number,
): Promise<void> {
  await ledger.change(organizationId, async (session) => {
    const filter = { _id, state: 'unfinished', 'lease.token': lease?.token ?? '' } as const
    const before = await collections.uploads.findOneAndUpdate(
      filter,
      { $set: { charged: size } },
      { session },
    )
    if (before !== null)
      await charge(collections, session, organizationId, { bytes: size - before.charged, files: 0 })
  })
}

/** Which of these blobs no record refers to. */
export async function unknownBlobs({ uploads }: Collections, blobs: string[]): Promise<string[]> {
  const known = new Set(await uploads.distinct('blob', { blob: { $in: blobs } }))
  return blobs.filter((blob) => !known.has(blob))
}
