import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** The organization of the operators; only its API keys and users can be system admins. */
export const systemOrganizationId = 1

export const organizationDocument = z.object({
  _id: id(),
  name: z.string(),
  /** IANA name of the zone in which times are shown and times without an offset are read. */
  time_zone_name: z.string(),
  /** Maximum of active subscribers over all its lists; null is unlimited. */
  subscriber_limit: integer().min(0).nullable(),
  /** Optimistic lock: raised by each transaction that uses or reserves quota; see shared/store/subscriber-quota.ts. */
  places_revision: integer().min(0),
  /** Id of a change of the limit that isn't enforced yet on requests and imports in progress; absent once it is. */
  limit_change: z.string().optional(),
  created_at: instant(),
})
export type OrganizationDocument = z.infer<typeof organizationDocument>
