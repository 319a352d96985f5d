import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'

/**
 * Optimistic locks: counters that a transaction raises. Of two transactions that raise the same one, the second fails with
 * a write conflict and runs again on what the first left.
 */

/** For a change of a list, its fields or its autoresponders. Resolves to the list after it; null when it is gone. */
export function raiseListRevision(
  { mailingLists }: Collections,
  session: ClientSession,
  listId: number,
): Promise<MailingListDocument | null> {
  return mailingLists.findOneAndUpdate(
    { _id: listId },
    { $inc: { revision: 1 } },
    { session, returnDocument: 'after' },
  )
}

/**
 * For the creation of an import that was checked against this revision. It conflicts with a concurrent change of the list
 * and leaves the revision, so that other creations needn't check again. False when the list has another revision.
 */
export async function lockListAtRevision(
  { mailingLists }: Collections,
  session: ClientSession,
  { listId, revision }: { listId: number; revision: number },
): Promise<boolean> {
  const { matchedCount } = await mailingLists.updateOne(
    { _id: listId, revision },
    { $inc: { import_creations: 1 } },
    { session },
  )
  return matchedCount === 1
}

/** For a change of API keys or users. */
export async function raiseCredentialsRevision(
  { installation }: Collections,
  session: ClientSession,
): Promise<void> {
  await installation.updateOne({ _id: 'installation' }, { $inc: { credentials_revision: 1 } }, { session })
}
