import type { ClientSession } from 'mongodb'
import { inTransaction } from '../../shared/runtime/database.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import { mapDuplicateKey } from '../api/validation.ts'
import type { ControlPlane } from '../control-plane.ts'

/**
 * Runs a change of a list, its fields or its autoresponders when no other one runs, nor the creation of an import on
 * it: with the list's revision goes whatever was read of them. `change` may run several times; `current` is the list
 * as it is in the session. What must be unique and is not is refused with `taken`.
 */
export function changeList<T>(
  { database }: ControlPlane,
  listId: number,
  taken: string,
  change: (session: ClientSession, current: MailingListDocument) => Promise<T>,
): Promise<T> {
  const { collections } = database
  return mapDuplicateKey(taken, () =>
    inTransaction(database, async (session) => {
      const current = await collections.mailingLists.findOneAndUpdate(
        { _id: listId },
        { $inc: { revision: 1 } },
        { session, returnDocument: 'after' },
      )
      return change(session, current!)
    }),
  )
}
