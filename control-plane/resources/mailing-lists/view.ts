import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { sameFields } from '../stored-fields.ts'
import { mailingListView, type MailingListView } from './schemas.ts'

export const toView = (list: MailingListDocument): MailingListView => ({
  id: list._id,
  ...sameFields(mailingListView, list),
})
