import type { ClientSession } from 'mongodb'
import type { ExistingSubscriber } from '../../../shared/csv/row-decision.ts'
import type { SubscriberStatus } from '../../../shared/contract/schemas/subscriber.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import { BsonReader } from './bson/bson-reader.ts'

/** The existing subscribers with these `_id`s, by `_id`, with the fields of the projection. */
export async function findExisting(
  { db, collections }: Pick<Database, 'db' | 'collections'>,
  session: ClientSession,
  keys: string[],
  projection: Record<string, 1>,
): Promise<Map<string, ExistingSubscriber>> {
  const filter = { _id: { $in: keys } }
  const batchSize = keys.length + 1
  const { collectionName } = collections.subscribers
  // With `raw` the reply's inner documents stay bytes. The driver's cursor took 4 us a subscriber.
  const reply = await db.command(
    { find: collectionName, filter, projection, batchSize },
    { session, raw: true },
  )
  const found = readReply(reply['cursor'] as Buffer)
  if (found !== null) return found
  // The subscribers don't fit into one reply: thousands of subscribers with long values in required fields.
  const documents = await collections.subscribers.find(filter, { session, projection, batchSize }).toArray()
  return new Map(documents.map((subscriber) => [subscriber._id, subscriber]))
}

/** Null when the server has more subscribers than the reply. */
function readReply(cursor: Buffer): Map<string, ExistingSubscriber> | null {
  const found = new Map<string, ExistingSubscriber>()
  const reader = new BsonReader(cursor)
  while (reader.next()) {
    if (reader.name === 'id' && reader.number() !== 0) return null
    if (reader.name !== 'firstBatch') continue
    const documents = reader.inner()
    while (documents.next()) {
      const subscriber = readSubscriber(documents.inner())
      found.set(subscriber._id, subscriber)
    }
  }
  return found
}

const noFields: ExistingSubscriber['custom_fields'] = Object.freeze({})

function readSubscriber(reader: BsonReader): ExistingSubscriber {
  const subscriber: ExistingSubscriber = { _id: '', id: 0, status: 'active', custom_fields: noFields }
  while (reader.next()) {
    switch (reader.name) {
      case '_id':
        subscriber._id = reader.string()
        break
      case 'id':
        subscriber.id = reader.number()
        break
      case 'status':
        subscriber.status = reader.string() as SubscriberStatus
        break
      case 'confirmed':
        subscriber.confirmed = reader.boolean()
        break
      case 'reactivations':
        subscriber.reactivations = reader.number()
        break
      case 'custom_fields':
        subscriber.custom_fields = reader.object()
        break
    }
  }
  return subscriber
}
