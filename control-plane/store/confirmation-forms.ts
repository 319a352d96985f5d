import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { ConfirmationFormDocument } from '../../shared/contract/schemas/confirmation.ts'

/** Writes of `confirmation_forms`. */
export async function insertConfirmationForm(
  { confirmationForms }: Collections,
  document: ConfirmationFormDocument,
): Promise<void> {
  await confirmationForms.insertOne(document)
}

/** The changed form; null when it is gone. */
export function updateConfirmationForm(
  { confirmationForms }: Collections,
  id: number,
  fields: Partial<ConfirmationFormDocument>,
): Promise<ConfirmationFormDocument | null> {
  return confirmationForms.findOneAndUpdate({ _id: id }, { $set: fields }, { returnDocument: 'after' })
}

/** False when it is gone. */
export async function deleteConfirmationFormDocument(
  { confirmationForms }: Collections,
  id: number,
): Promise<boolean> {
  const { deletedCount } = await confirmationForms.deleteOne({ _id: id })
  return deletedCount === 1
}
