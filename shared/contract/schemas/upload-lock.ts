import { z } from 'zod'
import { instant } from './bson-schema.ts'

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
