import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** The organization that the installation itself belongs to; only its keys and users may be system admins. */
export const systemOrganizationId = 1

export const organizationDocument = z.object({
  _id: id(),
  name: z.string(),
  /** IANA name of the zone in which times without an offset are read and all times are shown. */
  time_zone_name: z.string(),
  /** Most active subscribers over all its lists; null is unlimited. */
  subscriber_limit: integer().min(0).nullable(),
  /** Raised by whoever takes places under the limit, so that two of them take turns; see shared/store/subscriber-quota.ts. */
  places_revision: integer().min(0),
  /** Names a change of the limit that isn't enforced yet on what is under way; absent once it is. */
  limit_change: z.string().optional(),
  created_at: instant(),
})
export type OrganizationDocument = z.infer<typeof organizationDocument>
