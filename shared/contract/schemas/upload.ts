import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** What upload directories need in the database: all of them with `STAGING=gridfs`, figures and marks with `disk`. */

const content = () => z.string().regex(/^[0-9a-f]{24}$/)

/**
 * One name of an upload directory in the database. The finished file and the unfinished one are contents
 * (`uploads.files`, by `_id` in hexadecimal); each move is one write of this document.
 */
export const uploadNameDocument = z.object({
  /** `<organization id>/<file name>` */
  _id: z.string(),
  organization_id: id(),
  name: z.string(),
  finished: z.object({ content: content(), size: integer().min(0), modified_at: instant() }).nullable(),
  /** The token is that of the upload's lock; who goes on with it writes his own. */
  unfinished: z.object({ content: content(), token: z.string(), touched_at: instant() }).nullable(),
})
export type UploadNameDocument = z.infer<typeof uploadNameDocument>

/**
 * What an organization keeps with us, against its quota: the bytes and files of its upload directory, what its uploads in
 * progress have reserved, what its unfinished imports have staged, and what ended ones keep in the database. Whoever
 * changes it raises `revision`, so that a count that met a change is not written.
 */
export const uploadUsageDocument = z.object({
  /** The organization's id. */
  _id: id(),
  revision: integer().min(0),
  bytes: integer(),
  files: integer(),
  uploads: z.array(
    z.object({ token: z.string(), name: z.string(), bytes: integer().min(0), files: integer().min(0) }),
  ),
  /**
   * Imports whose files are not removed yet: unfinished ones, ended ones until they are cleared up after, and for a
   * moment those that are being created. Bytes of the source where it is staged, and of the partition.
   */
  imports: z
    .array(
      z.object({
        import_id: id(),
        source: integer().min(0),
        partition: integer().min(0),
        entered_at: instant(),
      }),
    )
    .optional(),
  /** Bytes of uploads that imports keep although no name leads to them any more. */
  pinned: integer().min(0).optional(),
  /** Bytes that ended imports keep in the database until their logs are purged: failed rows, and defaults. */
  kept: integer().min(0).optional(),
  counted_at: instant(),
})
export type UploadUsageDocument = z.infer<typeof uploadUsageDocument>

/** A file that our FTP server published and that nobody has touched since: an import need not watch it first. */
export const stableUploadDocument = z.object({
  /** `<organization id>/<fingerprint>`, see shared/storage/uploads/file-fingerprint.ts. */
  _id: z.string(),
  published_at: instant(),
})
export type StableUploadDocument = z.infer<typeof stableUploadDocument>
