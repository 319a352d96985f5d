import type { Service } from './service.ts'

/**
 * Holds a subscriber's row (`LIST:EMAIL`, there or not): whoever writes it tries again and again, so that an import
 * with it can't end. Resolves to what lets it go; the server does so by itself after a minute.
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
