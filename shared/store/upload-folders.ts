import type { ClientSession, Document } from 'mongodb'
import type { Collections } from '../contract/schemas/collections.ts'
import type { UploadDocument } from '../contract/schemas/upload.ts'
import { isFolderName, splitName } from '../values/upload-names.ts'
import { charge, makeLedger } from './ledger.ts'

/**
 * Folders of the upload directory. One exists while an API key has it, or a file, finished or not, lies in it. Then no
 * file of the root has its name. What could break this rule is checked in a transaction that writes the ledger of the
 * organization, so that two such changes conflict.
 */

/** `is_folder`: the name is that of a folder. `no_such_folder`: its folder isn't there. */
export type NameRefusal = 'is_folder' | 'no_such_folder'

export const withName = { state: { $in: ['finished', 'unfinished'] as UploadDocument['state'][] } }

/** Names in a folder. `0` is the character after `/`. */
export const namesIn = (folder: string) => ({ $gte: `${folder}/`, $lt: `${folder}0` })

/**
 * A condition on names for the read of a name's records before it gets a file, which adds what decides whether it may get
 * one (`judgeName`). Most names have a dot and no slash, and need nothing more. At most two records have the first name.
 */
export function nameAndFolder(name: string, own: string | null): Document {
  if (own !== null) return { name: { $in: [name, own] } }
  return isFolderName(name) ? { $or: [{ name }, { name: namesIn(name) }] } : { name }
}

/**
 * Why a name without a file can't get one; null when it can. `found`: the names that `nameAndFolder` has found, in their
 * order. `own`: the folder of the caller's key, which is there.
 */
export async function judgeName(
  collections: Collections,
  session: ClientSession,
  organizationId: number,
  { name, own, found }: { name: string; own: string | null; found: readonly string[] },
): Promise<NameRefusal | null> {
  const { folder } = splitName(name)
  if (own !== null) return found.includes(own) ? 'no_such_folder' : null
  if (folder === null) {
    const isFolder =
      isFolderName(name) && (found.length > 0 || (await hasKey(collections, session, organizationId, name)))
    return isFolder ? 'is_folder' : null
  }
  const names = { $or: [{ name: folder }, { name: namesIn(folder) }] }
  const first = await collections.uploads.findOne(
    { organization_id: organizationId, ...names, ...withName },
    { session, sort: { name: 1 }, projection: { name: 1 } },
  )
  const isThere =
    first === null ? await hasKey(collections, session, organizationId, folder) : first.name !== folder
  return isThere ? null : 'no_such_folder'
}

const hasKey = async (
  { apiKeys }: Collections,
  session: ClientSession,
  organizationId: number,
  folder: string,
): Promise<boolean> =>
  (await apiKeys.findOne(
    { organization_id: organizationId, uploads_folder: folder },
    { session, projection: { _id: 1 } },
  )) !== null

/** Whether a finished file lies in the folder. */
export async function hasFinishedFile(
  { uploads }: Collections,
  organizationId: number,
  folder: string,
): Promise<boolean> {
  const filter = { organization_id: organizationId, name: namesIn(folder), state: 'finished' } as const
  return (await uploads.findOne(filter, { projection: { _id: 1 } })) !== null
}

/** Must be called before a transaction with `reserveFolder`. */
export const prepareFolder = makeLedger

/** Whether an API key may get the folder: a file of its name stands in the way. Excludes that one is made meanwhile. */
export async function reserveFolder(
  collections: Collections,
  session: ClientSession,
  organizationId: number,
  folder: string,
): Promise<boolean> {
  await charge(collections, session, organizationId, { bytes: 0, files: 0 })
  const file = { organization_id: organizationId, name: folder, ...withName }
  return (await collections.uploads.findOne(file, { session, projection: { _id: 1 } })) === null
}
