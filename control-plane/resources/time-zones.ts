import type { Database } from '../../shared/runtime/database.ts'
import { batchedRead } from '../api/batched-read.ts'

/** IANA name of the organization's time zone; UTC for an organization that is gone. */
export const zoneOfOrganization = async (database: Database, organizationId: number): Promise<string> =>
  (await readZone(database, organizationId)) ?? 'UTC'

const readZone = batchedRead(async ({ collections }: Database, ids: number[]) => {
  const organizations = await collections.organizations
    .find({ _id: { $in: ids } }, { projection: { time_zone_name: 1 } })
    .toArray()
  return new Map(organizations.map(({ _id, time_zone_name: zone }) => [_id, zone]))
})
