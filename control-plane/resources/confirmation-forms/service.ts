import { clock } from '../../../shared/runtime/clock.ts'
import type { ConfirmationFormDocument } from '../../../shared/contract/schemas/confirmation.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { RecordOfPath } from '../../api/endpoint.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { mailingListIn, pathId } from '../../api/scope.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import { withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import {
  deleteConfirmationFormDocument,
  insertConfirmationForm,
  updateConfirmationForm,
} from '../../store/confirmation-forms.ts'
import { noConfirmationForm } from './refusals.ts'
import type { ConfirmationFormChange, ConfirmationFormCreation } from './schemas.ts'
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

/** The form that a path names. */
export const formInPath: RecordOfPath<ConfirmationFormDocument> = {
  refusals: [...mailingListIn('mailing_list_id').refusals, noConfirmationForm],
  async find(call) {
    const list = await mailingListIn('mailing_list_id').find(call)
    const { id } = call.params
    const form = await call.deps.database.collections.confirmationForms.findOne({
      _id: pathId(id, noConfirmationForm),
      mailing_list_id: list._id,
    })
    if (form === null) throw noConfirmationForm(id)
    return form
  },
}

/** The form as stored. Mails that are taken from now on have its new texts. Throws `not_found` when it is gone. */
export async function changeConfirmationForm(
  { database }: ControlPlane,
  form: ConfirmationFormDocument,
  change: ConfirmationFormChange,
): Promise<ConfirmationFormDocument> {
  const set: Partial<ConfirmationFormDocument> = withoutUndefined(change)
  if (Object.keys(set).length === 0) return form
  const changed = await updateConfirmationForm(database.collections, form._id, set)
  if (changed === null) throw noConfirmationForm(form._id)
  return changed
}

/** The links of its pending subscribers then add no subscriber, and its mails are dropped. Throws `not_found` when it is gone. */
export async function deleteConfirmationForm(
  { database }: ControlPlane,
  { _id }: ConfirmationFormDocument,
): Promise<void> {
  if (!(await deleteConfirmationFormDocument(database.collections, _id))) throw noConfirmationForm(_id)
}
