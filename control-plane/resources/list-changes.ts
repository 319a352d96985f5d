import type { ClientSession } from 'mongodb'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { RequestError } from '../api/request-error.ts'
import { noMailingList } from '../api/scope.ts'
import { mapDuplicateKey } from '../api/validation.ts'
import type { ControlPlane } from '../control-plane.ts'
import { raiseListRevision } from '../store/revisions.ts'

/**
 * Runs a change of a list, its fields or its autoresponders in a transaction. It conflicts with other such changes, and with
 * creations of imports on the list. It raises the list's revision, so caches of the list and its fields are read again.
 * `change` may run several times; `current` is the list in the session. `taken` is the refusal of a duplicate key.
 */
export function changeList<T>(
  { database }: ControlPlane,
  listId: number,
  taken: RequestError,
  change: (session: ClientSession, current: MailingListDocument) => Promise<T>,
): Promise<T> {
  const { collections } = database
  return mapDuplicateKey(taken, () =>
    inTransaction(database, async (session) => {
      const current = await raiseListRevision(collections, session, listId)
      if (current === null) throw noMailingList(listId)
      return change(session, current)
    }),
  )
}
