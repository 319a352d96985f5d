import type { ConfirmationFormDocument } from '../../../shared/contract/schemas/confirmation.ts'
import type { ConfirmationFormView } from './schemas.ts'

export function toView(form: ConfirmationFormDocument): ConfirmationFormView {
  const { _id, created_at: _createdAt, ...fields } = form
  return { id: _id, ...fields }
}
