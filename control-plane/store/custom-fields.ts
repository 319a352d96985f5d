import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { CustomFieldDocument } from '../../shared/contract/schemas/custom-field.ts'

/** Writes of `custom_fields`. Names are unique on a list by an index, whose error passes through. */

export async function insertCustomField(
  { customFields }: Collections,
  document: CustomFieldDocument,
  session: ClientSession,
): Promise<void> {
  await customFields.insertOne(document, { session })
}

/** False when the field is gone. */
export async function updateCustomField(
  { customFields }: Collections,
  { _id, ...fields }: CustomFieldDocument,
  session: ClientSession,
): Promise<boolean> {
  const { matchedCount } = await customFields.updateOne({ _id }, { $set: fields }, { session })
  return matchedCount === 1
}

/** Moves the field to `deleted_fields`, from which the engine removes its values in the background. */
export async function deleteCustomFieldDocument(
  { customFields, deletedFields }: Collections,
  { _id, mailing_list_id }: CustomFieldDocument,
  session: ClientSession,
): Promise<void> {
  await customFields.deleteOne({ _id }, { session })
  await deletedFields.insertOne({ _id, mailing_list_id }, { session })
}
