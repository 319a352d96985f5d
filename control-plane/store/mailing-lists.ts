import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'

/** Writes of `mailing_lists`. Names are unique in an organization by an index, whose error passes through. */

export async function insertMailingList(
  { mailingLists }: Collections,
  document: MailingListDocument,
  session: ClientSession,
): Promise<void> {
  await mailingLists.insertOne(document, { session })
}

/** The changed list; null when there is none with that id. */
export function updateMailingList(
  { mailingLists }: Collections,
  id: number,
  fields: Partial<MailingListDocument>,
  session: ClientSession,
): Promise<MailingListDocument | null> {
  return mailingLists.findOneAndUpdate({ _id: id }, { $set: fields }, { session, returnDocument: 'after' })
}

/** Conflicts with concurrent changes of these lists, so that nothing read from them in the transaction can be stale. */
export async function bumpRevisions(
  { mailingLists }: Collections,
  ids: number[],
  session: ClientSession,
): Promise<void> {
  await mailingLists.updateMany({ _id: { $in: ids } }, { $inc: { revision: 1 } }, { session })
}
