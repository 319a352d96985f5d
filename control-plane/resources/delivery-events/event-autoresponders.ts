import type { Caller } from '../../../shared/store/api-keys.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { recordFromKeys } from '../../../shared/contract/record-from-keys.ts'
import {
  autoresponderTargets,
  delayProjection,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { AnsweringAutoresponder } from '../../../shared/store/reactions.ts'
import { canAccess } from '../../api/scope.ts'
import { triggeredBy } from '../autoresponders/rules.ts'

/** An autoresponder whose mails have events, and the autoresponders that answer them. */
export interface EventAutoresponder {
  id: number
  organizationId: number
  listId: number
  /** IANA name of the organization's time zone. */
  zone: string
  answering: Answering[]
}

/** An autoresponder that answers events of another one's mails. */
export type Answering = AnsweringAutoresponder &
  Pick<
    AutoresponderDocument,
    | 'organization_id'
    | 'trigger'
    | 'trigger_autoresponder_to_click_on_any_url'
    | 'trigger_autoresponder_to_click_urls'
    | (typeof autoresponderTargets)[number]
  >

const answeringFields = {
  organization_id: 1,
  trigger: 1,
  trigger_autoresponder_to_click_on_any_url: 1,
  trigger_autoresponder_to_click_urls: 1,
  ...delayProjection,
  ...recordFromKeys(autoresponderTargets, () => 1),
}

/** The filter for autoresponders with one of these targets; each target field has its own index. */
export const filterByTargets = (ids: readonly number[]) => ({
  $or: autoresponderTargets.map((target) => ({ [target]: { $in: [...ids] } })),
})

/**
 * The autoresponders that the caller can access, by id. Reading them outside of the transaction is safe, because they are
 * never deleted, nor moved to another list.
 */
export async function readEventAutoresponders(
  { database, reads }: ControlPlane,
  caller: Caller,
  ids: readonly number[],
): Promise<Map<number, EventAutoresponder>> {
  if (ids.length === 0) return new Map()
  const { autoresponders } = database.collections
  const [found, candidates] = await Promise.all([
    autoresponders
      .find({ _id: { $in: [...ids] } }, { projection: { organization_id: 1, mailing_list_id: 1 } })
      .toArray(),
    autoresponders.find<Answering>(filterByTargets(ids), { projection: answeringFields }).toArray(),
  ])
  const accessible = found.filter(({ organization_id: owner }) => canAccess(caller, owner))
  return new Map(
    await Promise.all(
      accessible.map(async ({ _id, organization_id: organizationId, mailing_list_id: listId }) => {
        const zone = await reads.timeZone(organizationId)
        const answering = candidates.filter(
          (other) => other.organization_id === organizationId && triggeredBy(other)?.id === _id,
        )
        return [_id, { id: _id, organizationId, listId, zone, answering }] as const
      }),
    ),
  )
}

/** Whether a click on this URL triggers it; the URLs in its list match exactly. */
export const concernsUrl = (answering: Answering, url: string): boolean =>
  answering.trigger_autoresponder_to_click_on_any_url === true ||
  answering.trigger_autoresponder_to_click_urls?.includes(url) === true
