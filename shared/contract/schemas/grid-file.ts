import { z } from 'zod'
import { bytes, id, instant, integer } from './bson-schema.ts'

/**
 * Files in the database, in GridFS' two collections a bucket: who they are in `<bucket>.files`, their bytes in
 * `<bucket>.chunks`. A piece is as long as what was appended at once, not of one size for the whole file, so that a
 * file can grow and be read meanwhile: `n` is the offset of its first byte. GridFS' own tools don't read that.
 */
const objectId = () =>
  z
    .custom<ObjectIdLike>((value) => (value as ObjectIdLike | null)?._bsontype === 'ObjectId')
    .meta({ bson: { bsonType: 'objectId' } })

type ObjectIdLike = import('mongodb').ObjectId

export const gridFileDocument = z.object({
  _id: objectId(),
  filename: z.string(),
  uploadDate: instant(),
  /** Null while it grows. */
  length: integer().min(0).nullable(),
  /** Of staged files: the import they are for. */
  import_id: id().optional(),
  /** Of uploads: imports for which it is kept as it is, whatever becomes of its name. */
  pinned_by: z.array(id()).optional(),
  /** Nothing leads to it any more; it goes when nobody pins it. */
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
