import type { ObjectId } from 'mongodb'
import { z } from 'zod'
import { bytes, id, instant, integer } from './bson-schema.ts'

/**
 * Files in the database, in the two collections of a GridFS bucket: `<bucket>.files` describes them and
 * `<bucket>.chunks` has their bytes. Pieces are as long as the bytes that were appended at once, so that a file can
 * grow while it is read. `n` is the offset of the first byte. GridFS' own tools can't read such files.
 */
const objectId = () => z.custom<ObjectId>(isObjectId).meta({ bson: { bsonType: 'objectId' } })

const isObjectId = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && '_bsontype' in value && value._bsontype === 'ObjectId'

export const gridFileDocument = z.object({
  _id: objectId(),
  filename: z.string(),
  uploadDate: instant(),
  /** Null while the file grows. */
  length: integer().min(0).nullable(),
  /** The import of a staged file; absent for an upload. */
  import_id: id().optional(),
  /** Imports that need the present content of an upload, even when its name is replaced or removed. */
  pinned_by: z.array(id()).optional(),
  /** No name refers to the file any more. It is removed once no import pins it. */
  detached: z.boolean().optional(),
})
export type GridFileDocument = z.infer<typeof gridFileDocument>

export const gridPieceDocument = z.object({
  _id: objectId(),
  files_id: objectId(),
  /** Offsets of its first byte and of the byte after its last. */
  n: integer().min(0),
  end: integer().min(1),
  data: bytes(),
})
export type GridPieceDocument = z.infer<typeof gridPieceDocument>
