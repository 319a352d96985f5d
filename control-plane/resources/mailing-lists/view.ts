import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { MailingListView } from './schemas.ts'

export function toView(list: MailingListDocument): MailingListView {
  const {
    _id,
    organization_id,
    name,
    has_format,
    has_confirmed,
    is_remote_list,
    primary_key_custom_field_id,
  } = list
  return {
    id: _id,
    organization_id,
    name,
    has_format,
    has_confirmed,
    is_remote_list,
    primary_key_custom_field_id,
  }
}
