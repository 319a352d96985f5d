import type { ClientSession } from 'mongodb'
import type { ApiKeyDocument } from '../../shared/contract/schemas/api-key.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** Writes of `api_keys`. */

export async function insertApiKey(
  { apiKeys }: Collections,
  document: ApiKeyDocument,
  session: ClientSession,
): Promise<void> {
  await apiKeys.insertOne(document, { session })
}

export async function updateApiKey(
  { apiKeys }: Collections,
  id: number,
  fields: Partial<ApiKeyDocument>,
  session: ClientSession,
): Promise<void> {
  await apiKeys.updateOne({ _id: id }, { $set: fields }, { session })
}

export async function deleteApiKeyDocument(
  { apiKeys }: Collections,
  id: number,
  session: ClientSession,
): Promise<void> {
  await apiKeys.deleteOne({ _id: id }, { session })
}
