import { MongoServerError, type ClientSession, type Collection, type Db, type Document } from 'mongodb'
import { DocumentSequence } from 'mongodb/lib/cmap/commands.js'
import type { BsonWriter } from './bson-writer.ts'

/**
 * Writes of what is BSON already. The driver's `insertMany` and `bulkWrite` make an operation object of each document
 * first. Nobody repeats these commands, as nothing in a transaction is.
 */

export interface BsonTarget<T extends Document> {
  db: Db
  collection: Collection<T>
  session: ClientSession
}

/** Throws the first error of a document as a MongoServerError. */
export const insertBson = <T extends Document>(target: BsonTarget<T>, documents: BsonWriter): Promise<void> =>
  sendAll(target, 'insert', 'documents', documents)

/** Takes statements, `{q, u}` each; throws the first one's error as a MongoServerError. */
export const updateBson = <T extends Document>(
  target: BsonTarget<T>,
  statements: BsonWriter,
): Promise<void> => sendAll(target, 'update', 'updates', statements)

async function sendAll<T extends Document>(
  { db, collection, session }: BsonTarget<T>,
  command: 'insert' | 'update',
  name: 'documents' | 'updates',
  writes: BsonWriter,
): Promise<void> {
  for (const bytes of writes.pieces(maxMessageBytes)) {
    const sequence = new DocumentSequence(name)
    sequence.push(null, bytes)
    const reply = await db.command(
      {
        [command]: collection.collectionName,
        [name]: sequence,
        ordered: true,
        bypassDocumentValidation: true,
      },
      { session },
    )
    const [error] = (reply['writeErrors'] as { code: number; errmsg: string }[] | undefined) ?? []
    if (error !== undefined) throw new MongoServerError(error)
  }
}

/** The server takes messages of 48,000,000 bytes. Only long defaults in thousands of rows come near that. */
const maxMessageBytes = 32 * 1024 * 1024
