import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** Documents of upload directories: all with `STAGING=gridfs`; locks, usage and stable files also with `disk`. */

/**
 * The lock of an upload in progress. Its process renews `lease_until` by the database's clock and loses the lock
 * when the lease expires. A process that was suspended meanwhile notices that the token is another one.
 */
export const uploadLockDocument = z.object({
  /** `<organization id>/<file name>` */
  _id: z.string(),
  /** Random, new for every upload. It is part of the unfinished file's name. */
  token: z.string(),
  lease_until: instant(),
})

const content = () => z.string().regex(/^[0-9a-f]{24}$/)

/**
 * One name of an upload directory in the database. The finished and the unfinished file refer to `uploads.files` by
 * `_id` in hexadecimal. Each change of them is one write of this document.
 */
export const uploadNameDocument = z.object({
  /** `<organization id>/<file name>` */
  _id: z.string(),
  organization_id: id(),
  name: z.string(),
  finished: z.object({ content: content(), size: integer().min(0), modified_at: instant() }).nullable(),
  /** `token` is that of the upload's lock; an upload that resumes the file writes its own token. */
  unfinished: z.object({ content: content(), token: z.string(), touched_at: instant() }).nullable(),
})
export type UploadNameDocument = z.infer<typeof uploadNameDocument>

/**
 * Storage that counts against an organization's quota: its upload directory, reservations of uploads, staged files of
 * unfinished imports, and rows of ended ones. Each change raises `revision`, so that a recount that overlaps with a
 * change isn't written.
 */
export const uploadUsageDocument = z.object({
  /** Id of the organization. */
  _id: id(),
  revision: integer().min(0),
  bytes: integer(),
  files: integer(),
  uploads: z.array(
    z.object({ token: z.string(), name: z.string(), bytes: integer().min(0), files: integer().min(0) }),
  ),
  /**
   * Imports whose files aren't removed yet: unfinished ones, ended ones until they are finalized, and briefly those
   * that are being created. Values are the bytes of the staged source and of the partition.
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
  /** Bytes of uploads that imports pin although no name refers to them any more. */
  pinned: integer().min(0).optional(),
  /** Bytes of ended imports in the database, which their failed rows and default values use until logs are purged. */
  kept: integer().min(0).optional(),
  counted_at: instant(),
})
export type UploadUsageDocument = z.infer<typeof uploadUsageDocument>

/**
 * A file that was uploaded and that hasn't changed since, so that an import needn't wait until it is
 * stable. Where a client has set its time, the fingerprint has the new time.
 */
export const stableUploadDocument = z.object({
  /** `<organization id>/<fingerprint>`, see shared/storage/uploads/file-fingerprint.ts. */
  _id: z.string(),
  /** The entry is removed an hour later; where a client has set the time, it lies ahead. */
  published_at: instant(),
  /** The fingerprint before a client set the time of the file. */
  original: z.string().optional(),
})
