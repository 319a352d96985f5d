import type { ObjectId } from 'mongodb'
import { z } from 'zod'
import { bytes, id, instant, integer } from './bson-schema.ts'

/**
 * One upload: an unfinished one, the finished file of a name, or a file that has lost its name while imports pin it
 * (`detached`). shared/store/uploads.ts has its moves.
 */
export const uploadDocument = z.object({
  _id: z.string(),
  organization_id: id(),
  name: z.string(),
  state: z.enum(['unfinished', 'finished', 'detached']),
  /** Id of its bytes (shared/storage/blobs/). That of a finished file never changes, nor do its bytes. */
  blob: z.string(),
  /** In bytes. Of an unfinished one with a lease the size of the blob holds. */
  size: integer().min(0),
  /** The bytes that the ledger is charged with: `size`, and while the upload is received what is reserved ahead. */
  charged: integer().min(0),
  modified_at: instant(),
  /** Of the process that receives it. Its token is a fencing token. Null when the process has ended its last write. */
  lease: z.object({ token: z.string(), until: instant() }).nullable(),
  /** Imports that read this file. */
  pinned_by: z.array(id()),
})
export type UploadDocument = z.infer<typeof uploadDocument>

/** What an organization's quota is charged with (shared/store/ledger.ts). */
export const ledgerDocument = z.object({
  /** Id of the organization. */
  _id: id(),
  /** The sum of `charged` of its uploads. */
  bytes: integer(),
  /** Names with a finished or an unfinished upload. */
  files: integer(),
  /** Raised by each transaction, so that any two of them conflict. */
  changes: integer(),
  /**
   * Imports whose files aren't removed yet: unfinished ones, ended ones until they are finalized, and briefly those
   * that are being created. Values are the bytes of the staged source and of the partition.
   */
  imports: z.array(
    z.object({
      import_id: id(),
      source: integer().min(0),
      partition: integer().min(0),
      entered_at: instant(),
    }),
  ),
  /** Bytes of ended imports in the database, which their failed rows and default values use until logs are purged. */
  kept: integer().min(0),
})
export type LedgerDocument = z.infer<typeof ledgerDocument>

const objectId = () => z.custom<ObjectId>(isObjectId).meta({ bson: { bsonType: 'objectId' } })

const isObjectId = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && '_bsontype' in value && value._bsontype === 'ObjectId'

/**
 * A part of a blob in the database. Pieces are as long as the bytes that were appended at once, so that a blob can grow
 * while it is read.
 */
export const blobPieceDocument = z.object({
  _id: objectId(),
  blob: z.string(),
  /** Offsets of its first byte and of the byte after its last. -1 and 0 show that an empty blob is there. */
  n: integer().min(-1),
  end: integer().min(0),
  data: bytes(),
  /** Of the first piece, by the clock of the database. */
  begun_at: instant(),
})
export type BlobPieceDocument = z.infer<typeof blobPieceDocument>
