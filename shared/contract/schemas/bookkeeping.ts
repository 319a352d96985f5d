import { z } from 'zod'
import { bytes, id, instant, integer } from './bson-schema.ts'

/** Counter of the next free id of a kind of document. */
export const counterDocument = z.object({ _id: z.string(), next: integer().min(1) })

/** The single document about the installation. */
export const installationDocument = z.object({
  _id: z.literal('installation'),
  /** Key of the HMAC with which API keys are hashed. */
  key_hash_secret: bytes(),
  /** Optimistic lock: every change of API keys and users raises it, so that two of them conflict. */
  credentials_revision: integer().min(0),
  /**
   * Id of its DATA_DIR (shared/storage/staging/folder-mark.ts); absent until a process with STAGING=disk has marked the
   * folder.
   */
  data_folder_id: z.string().optional(),
})

/** Counts wrong credentials from one address. A TTL index removes it after its minute. */
export const authFailureDocument = z.object({ _id: z.string(), count: integer().min(0), until: instant() })

/** A successful creation with an Idempotency-Key. A repeat gets the same reply for a day. */
export const idempotencyDocument = z.object({
  /** Digest of the API key, the list and the client's Idempotency-Key. */
  _id: z.string(),
  body_digest: z.string(),
  import_id: id(),
  /** The reply's `data` as JSON text; `sealed_reply` has it encrypted when it contains secrets. */
  reply: z.string().optional(),
  sealed_reply: bytes().optional(),
  expires_at: instant(),
})
export type IdempotencyDocument = z.infer<typeof idempotencyDocument>

/** A deleted custom field whose values aren't removed from all subscribers yet; `_id` is that of the field. */
export const deletedFieldDocument = z.object({
  _id: id(),
  mailing_list_id: id(),
  /** Values are removed from subscribers before this `_id`; absent at the beginning. */
  removed_to: z.string().optional(),
  /**
   * Set after the first pass over all subscribers: the time from which a second pass removes values that were written
   * meanwhile.
   */
  second_pass_at: instant().optional(),
})
export type DeletedFieldDocument = z.infer<typeof deletedFieldDocument>
