import type { AutoresponderDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { sameFields } from '../stored-fields.ts'
import { autoresponderView, type AutoresponderView } from './schemas.ts'

/** A function that makes views, with times in the zone of the list's organization. */
export async function viewer(
  { reads }: ControlPlane,
  list: MailingListDocument,
): Promise<(document: AutoresponderDocument) => AutoresponderView> {
  const zoneName = await reads.timeZone(list.organization_id)
  return (document) => toView(document, zoneName)
}

function toView(document: AutoresponderDocument, zoneName: string): AutoresponderView {
  const { paused_at: pausedAt, triggered_at: triggeredAt } = document
  return {
    id: document._id,
    ...sameFields(autoresponderView, document),
    paused_at: pausedAt === null ? null : formatInstant(pausedAt, zoneName),
    triggered_on: triggeredAt === null ? null : formatInstant(triggeredAt, zoneName).slice(0, 10),
  }
}
