import type { Service } from './service.ts'

/**
 * Locks a subscriber's row (`LIST:EMAIL`, which may not exist) in an open transaction. Its writers retry, so that an
 * import with this row can't end. Resolves to what ends the transaction; the server does so by itself after a minute.
 */
export async function lockRow(
  { client, collections }: Pick<Service, 'client' | 'collections'>,
  key: string,
): Promise<() => Promise<void>> {
  const session = client.startSession()
  session.startTransaction()
  const options = { session, upsert: true, bypassDocumentValidation: true }
  await collections.subscribers.updateOne({ _id: key }, { $set: { touched: true } }, options)
  return async () => {
    await session.abortTransaction()
    await session.endSession()
  }
}
