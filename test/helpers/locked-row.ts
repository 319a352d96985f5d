import type { Service } from './service.ts'

/**
 * Locks subscribers' rows (`LIST:EMAIL`, which may not exist) in an open transaction. Their writers retry, so that an
 * import with such a row can't end. Resolves to what ends the transaction; the server does so by itself after a minute.
 */
export async function lockRow(
  { client, collections }: Pick<Service, 'client' | 'collections'>,
  ...keys: string[]
): Promise<() => Promise<void>> {
  const session = client.startSession()
  session.startTransaction()
  const options = { session, upsert: true, bypassDocumentValidation: true }
  for (const _id of keys)
    await collections.subscribers.updateOne({ _id }, { $set: { touched: true } }, options)
  return async () => {
    await session.abortTransaction()
    await session.endSession()
  }
}
