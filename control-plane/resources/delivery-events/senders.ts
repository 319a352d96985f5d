import type { Caller } from '../../../shared/store/api-keys.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import {
  autoresponderTargets,
  delayProjection,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Answering } from '../../../shared/store/reactions.ts'
import { reaches } from '../../api/scope.ts'

/** An autoresponder that events are told of, and which others its mails trigger. */
export interface Sender {
  id: number
  organizationId: number
  listId: number
  /** The organization's. */
  zone: string
  triggers: Trigger[]
}

/** An autoresponder that answers what becomes of another one's mail. */
export type Trigger = Answering &
  Pick<
    AutoresponderDocument,
    | 'organization_id'
    | 'trigger'
    | 'trigger_autoresponder_to_click_on_any_url'
    | 'trigger_autoresponder_to_click_urls'
    | (typeof autoresponderTargets)[number]
  >

const triggerFields = {
  organization_id: 1,
  trigger: 1,
  trigger_autoresponder_to_click_on_any_url: 1,
  trigger_autoresponder_to_click_urls: 1,
  ...delayProjection,
  ...Object.fromEntries(autoresponderTargets.map((target) => [target, 1])),
}

/** Each target has its own index. */
export const triggersOf = (ids: readonly number[]) => ({
  $or: autoresponderTargets.map((target) => ({ [target]: { $in: [...ids] } })),
})

/** Those of the autoresponders that the caller reaches, by id. They are never deleted, nor moved to another list. */
export async function readSenders(
  { collections }: Database,
  caller: Caller,
  ids: readonly number[],
): Promise<Map<number, Sender>> {
  if (ids.length === 0) return new Map()
  const [found, triggers] = await Promise.all([
    collections.autoresponders
      .find({ _id: { $in: [...ids] } }, { projection: { organization_id: 1, mailing_list_id: 1 } })
      .toArray(),
    collections.autoresponders.find<Trigger>(triggersOf(ids), { projection: triggerFields }).toArray(),
  ])
  const reached = found.filter(({ organization_id: owner }) => reaches(caller, owner))
  const zones = await zonesOf(collections, [...new Set(reached.map((sender) => sender.organization_id))])
  return new Map(
    reached.map(({ _id, organization_id: organizationId, mailing_list_id: listId }) => [
      _id,
      {
        id: _id,
        organizationId,
        listId,
        zone: zones.get(organizationId) ?? 'UTC',
        triggers: triggers.filter(
          (trigger) => trigger.organization_id === organizationId && targetOf(trigger) === _id,
        ),
      },
    ]),
  )
}

export async function zonesOf(
  { organizations }: Database['collections'],
  ids: readonly number[],
): Promise<Map<number, string>> {
  const found = await organizations
    .find({ _id: { $in: [...ids] } }, { projection: { time_zone_name: 1 } })
    .toArray()
  return new Map(found.map(({ _id, time_zone_name: zone }) => [_id, zone]))
}

/** Whose mail it answers, by what triggers it; what else it may have stored has no effect. */
function targetOf(trigger: Trigger): number | null {
  switch (trigger.trigger) {
    case 'autoresponder_open':
    case 'autoresponder_nonopen':
      return trigger.trigger_autoresponder_to_open_id
    case 'autoresponder_click':
    case 'autoresponder_nonclick':
      return trigger.trigger_autoresponder_to_click_id
    case 'autoresponder_send':
      return trigger.trigger_autoresponder_to_send_id
    default:
      return null
  }
}

/** Whether a click on this link is one that the trigger asks about; a link in its list matches as typed. */
export const asksAbout = (trigger: Trigger, url: string): boolean =>
  trigger.trigger_autoresponder_to_click_on_any_url === true ||
  trigger.trigger_autoresponder_to_click_urls?.includes(url) === true
