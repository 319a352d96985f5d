import type { AutoresponderDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { zoneOfOrganization } from '../time-zones.ts'
import type { AutoresponderView } from './schemas.ts'

/** A function that makes views, with times in the zone of the list's organization. */
export async function viewer(
  { database }: ControlPlane,
  list: MailingListDocument,
): Promise<(document: AutoresponderDocument) => AutoresponderView> {
  const zoneName = await zoneOfOrganization(database, list.organization_id)
  return (document) => toView(document, zoneName)
}

function toView(document: AutoresponderDocument, zoneName: string): AutoresponderView {
  const {
    _id,
    organization_id: _organizationId,
    name_key: _nameKey,
    created_at: _createdAt,
    triggered_at: triggeredAt,
    paused_at: pausedAt,
    ...fields
  } = document
  return {
    id: _id,
    ...fields,
    paused_at: pausedAt === null ? null : formatInstant(pausedAt, zoneName),
    triggered_on: triggeredAt === null ? null : formatInstant(triggeredAt, zoneName).slice(0, 10),
  }
}
