import { z } from 'zod'
import { bytes, id, instant, integer } from './bson-schema.ts'

/** The next free id of a kind of document. */
export const counterDocument = z.object({ _id: z.string(), next: integer().min(1) })
export type CounterDocument = z.infer<typeof counterDocument>

/** The one document about the installation as a whole. */
export const installationDocument = z.object({
  _id: z.literal('installation'),
  /** Key of the API keys' hashes. */
  key_hash_secret: bytes(),
  /** Raised by every change of keys and users, so that two of them take turns. */
  credentials_revision: integer().min(0),
  /** The mark of its DATA_DIR (shared/storage/staging/folder-mark.ts); absent until a process with STAGING=disk has made it. */
  data_folder_id: z.string().optional(),
})
export type InstallationDocument = z.infer<typeof installationDocument>

/** Wrong credentials from one address; removed by a TTL index when its minute is over. */
export const authFailureDocument = z.object({ _id: z.string(), count: integer().min(0), until: instant() })
export type AuthFailureDocument = z.infer<typeof authFailureDocument>

/** A successful creation that is answered again the same way for a day. */
export const idempotencyDocument = z.object({
  /** Digest of API key, list and the client's key. */
  _id: z.string(),
  body_digest: z.string(),
  import_id: id(),
  /** The reply's `data` as JSON text; encrypted where it has secrets. */
  reply: z.string().optional(),
  sealed_reply: bytes().optional(),
  expires_at: instant(),
})
export type IdempotencyDocument = z.infer<typeof idempotencyDocument>

/** A custom field whose subscribers may still hold values of it; `_id` is the field's. */
export const deletedFieldDocument = z.object({
  _id: id(),
  mailing_list_id: id(),
  /** Subscribers of the list before this `_id` hold no value of it any more. Absent: none is done. */
  removed_to: z.string().optional(),
  /** Set when all were done once: from then on they are walked a second time, for what was written meanwhile. */
  walk_again_at: instant().optional(),
})
export type DeletedFieldDocument = z.infer<typeof deletedFieldDocument>
