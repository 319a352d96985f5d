import type { CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import { sameFields } from '../stored-fields.ts'
import { customFieldView, type CustomFieldView } from './schemas.ts'

export const toView = (field: CustomFieldDocument): CustomFieldView => ({
  id: field._id,
  ...sameFields(customFieldView, field),
})
