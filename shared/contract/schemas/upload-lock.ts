import { z } from 'zod'
import { instant } from './bson-schema.ts'

/**
 * Somebody is uploading this file. The FTP process that does renews `lease_until` by the database's clock; one that
 * died loses the lock when it runs out, and one that was suspended meanwhile finds another's token here.
 */
export const uploadLockDocument = z.object({
  /** `<organization id>/<file name>` */
  _id: z.string(),
  /** Random, new for every upload. The unfinished file bears it in its name. */
  token: z.string(),
  lease_until: instant(),
})
export type UploadLockDocument = z.infer<typeof uploadLockDocument>
