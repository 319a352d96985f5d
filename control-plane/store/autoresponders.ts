import type { ClientSession } from 'mongodb'
import type { AutoresponderDocument } from '../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** Writes of `autoresponders`. Names are unique on a list by an index, whose error passes through. */

export async function insertAutoresponder(
  { autoresponders }: Collections,
  document: AutoresponderDocument,
  session: ClientSession,
): Promise<void> {
  await autoresponders.insertOne(document, { session })
}

export async function updateAutoresponder(
  { autoresponders }: Collections,
  { _id, ...fields }: AutoresponderDocument,
  session: ClientSession,
): Promise<void> {
  await autoresponders.updateOne({ _id }, { $set: fields }, { session })
}

/** False when it is gone. */
export async function deleteAutoresponderDocument(
  { autoresponders }: Collections,
  id: number,
  session: ClientSession,
): Promise<boolean> {
  const { deletedCount } = await autoresponders.deleteOne({ _id: id }, { session })
  return deletedCount === 1
}
