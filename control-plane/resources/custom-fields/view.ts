import type { CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import type { CustomFieldView } from './schemas.ts'

export function toView(field: CustomFieldDocument): CustomFieldView {
  const {
    _id,
    mailing_list_id,
    name,
    field_type,
    required,
    options,
    minimum_length,
    maximum_length,
    minimum_value,
    maximum_value,
  } = field
  return {
    id: _id,
    mailing_list_id,
    name,
    field_type,
    required,
    options,
    default: field.default,
    minimum_length,
    maximum_length,
    minimum_value,
    maximum_value,
  }
}
