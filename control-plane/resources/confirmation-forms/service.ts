import { clock } from '../../../shared/runtime/clock.ts'
import type { ConfirmationFormDocument } from '../../../shared/contract/schemas/confirmation.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { insertConfirmationForm } from '../../store/confirmation-forms.ts'
import type { ConfirmationFormCreation } from './schemas.ts'
import { toView } from './view.ts'

/** One page of the list's confirmation forms, by id. */
export const listConfirmationForms = (
  call: PageCall,
  { _id: listId }: MailingListDocument,
  query: TokenPageQuery,
) =>
  readPage(
    call,
    call.deps.database.collections.confirmationForms,
    { mailing_list_id: listId },
    {
      query,
      scope: `confirmation forms of list ${listId}`,
      sort: { _id: 1 },
      batchSize: 4,
      views: (documents) => documents.map(toView),
    },
  )

/** The form as stored. */
export async function createConfirmationForm(
  { database }: ControlPlane,
  list: MailingListDocument,
  creation: ConfirmationFormCreation,
): Promise<ConfirmationFormDocument> {
  const { collections } = database
  const document: ConfirmationFormDocument = {
    ...creation,
    _id: await database.ids.allocate('confirmation_form'),
    mailing_list_id: list._id,
    created_at: clock.now(),
  }
  await insertConfirmationForm(collections, document)
  return document
}
