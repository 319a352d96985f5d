import { z } from 'zod'
import { isTimeZone } from '../../../shared/values/time-zone.ts'
import { nameText } from '../../api/fields.ts'

/** Organizations in requests and replies. */

export const organizationView = z
  .object({
    id: z.int(),
    name: z.string(),
    time_zone_name: z.string(),
    subscriber_limit: z.int().nullable(),
  })
  .meta({ id: 'Organization' })
export type OrganizationView = z.infer<typeof organizationView>

export const exampleOrganization: OrganizationView = {
  id: 2,
  name: 'Example Ltd',
  time_zone_name: 'Europe/Berlin',
  subscriber_limit: null,
}

const zoneName = z
  .string()
  .refine(isTimeZone, { error: 'must be the IANA name of a time zone, such as Europe/Berlin' })
const limit = z.int().min(0).nullable()
export const organizationCreation = z.object({
  name: nameText(255),
  time_zone_name: zoneName.default('UTC'),
  subscriber_limit: limit.default(null),
})
export type OrganizationCreation = z.infer<typeof organizationCreation>

export const organizationChange = z
  .object({ name: nameText(255), time_zone_name: zoneName, subscriber_limit: limit })
  .partial()
export type OrganizationChange = z.infer<typeof organizationChange>
