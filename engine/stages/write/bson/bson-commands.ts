import { MongoServerError, type ClientSession, type Collection, type Db, type Document } from 'mongodb'
import { DocumentSequence } from 'mongodb/lib/cmap/commands.js'
import type { BsonWriter } from './bson-writer.ts'
import { binaryMegabyte } from '../../../../shared/values/byte-sizes.ts'

/**
 * Sends documents that are serialized already: the driver's `insertMany` and `bulkWrite` first make an object of each.
 * The driver doesn't retry these commands, as it retries none in a transaction.
 */

interface BsonTarget<T extends Document> {
  db: Db
  collection: Collection<T>
  session: ClientSession
}

/** Throws the first document's error as a MongoServerError. */
export const insertBson = <T extends Document>(target: BsonTarget<T>, documents: BsonWriter): Promise<void> =>
  sendAll(target, 'insert', 'documents', documents)

/** Each statement is `{q, u}`. Throws the first statement's error as a MongoServerError. */
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
    // A section of the message: its kind, its length, and the name that stands for the documents.
    const header = Buffer.from(`\x01\0\0\0\0${name}\0`)
    header.writeInt32LE(header.length - 1 + bytes.length, 1)
    const reply: { writeErrors?: { code: number; errmsg: string }[] } = await db.command(
      {
        [command]: collection.collectionName,
        [name]: messagePart(header),
        [`${name}_bytes`]: messagePart(bytes),
        ordered: true,
        bypassDocumentValidation: true,
      },
      { session },
    )
    const error = reply.writeErrors?.[0]
    if (error !== undefined) throw new MongoServerError(error)
  }
}

/**
 * Bytes of a message. The driver appends them to the command in the order of its fields, which it then removes. Its own
 * `toBin` copies the documents once more: of 4 MB, a tenth of the time that such rows take.
 */
const messagePart = (bytes: Buffer): DocumentSequence =>
  Object.assign(new DocumentSequence(''), { toBin: () => bytes })

/** The server accepts messages of 48,000,000 bytes. Only long defaults in thousands of rows come near that. */
const maxMessageBytes = 32 * binaryMegabyte
