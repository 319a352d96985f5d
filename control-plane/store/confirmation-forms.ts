import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { ConfirmationFormDocument } from '../../shared/contract/schemas/confirmation.ts'

/** Writes of `confirmation_forms`. */
export async function insertConfirmationForm(
  { confirmationForms }: Collections,
  document: ConfirmationFormDocument,
): Promise<void> {
  await confirmationForms.insertOne(document)
}
