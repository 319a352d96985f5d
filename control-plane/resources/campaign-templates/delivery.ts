import type { TemplateDispatch } from '../../../shared/contract/schemas/campaign-template.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { RequestError } from '../../api/request-error.ts'
import { withoutUndefined } from '../../api/validation.ts'
import { namesToClear } from '../outside-names.ts'
import { twoRules, wrongBeginning } from './refusals.ts'
import type { DispatchAttributes, DispatchView } from './schemas.ts'

/** Applies a request to the stored delivery settings of a template, and shows them. */

const namesById = {
  virtual_mta_id: ['virtual_mta_name'],
  url_domain_id: ['url_domain_name', 'url_domain_domain'],
  seed_list_id: ['seed_list_name'],
}
const bounceNames = ['bounce_email_name', 'bounce_email_email'] as const

/** Null clears the settings; a hash without a known key changes nothing. Each problem is added to `problems`. */
export function changedDispatch(
  stored: TemplateDispatch | null,
  attributes: DispatchAttributes | null | undefined,
  zoneName: string,
  problems: RequestError[],
): TemplateDispatch | null {
  if (attributes === null) return null
  if (attributes === undefined || Object.keys(attributes).length === 0) return stored
  const { begins_at: beginsAt, bounce_email_id: bounceEmail, ...fields } = attributes
  const beginsAtTime =
    beginsAt === undefined || beginsAt === null ? beginsAt : parseApiTime(beginsAt, zoneName)
  if (beginsAtTime === null && typeof beginsAt === 'string') problems.push(wrongBeginning())
  const rules = [attributes.special_sending_rule_id, attributes.special_sending_rule_name]
  if (rules.every((rule) => rule !== undefined && rule !== null)) problems.push(twoRules())
  const before = stored ?? dispatchDefaults
  return {
    ...before,
    ...namesToClear(namesById, before, attributes),
    ...(bounceEmail === undefined ? {} : bounceAddress(before, bounceEmail)),
    ...replacedRule(attributes),
    ...withoutUndefined(fields),
    ...(beginsAtTime === undefined ? {} : { begins_at: beginsAtTime }),
  }
}

function bounceAddress(
  before: TemplateDispatch,
  address: { userId: number; domainId: number } | null,
): Partial<TemplateDispatch> {
  const [userId, domainId] = [address?.userId ?? null, address?.domainId ?? null]
  const isSame = userId === before.bounce_email_user_id && domainId === before.bounce_email_domain_id
  return {
    bounce_email_user_id: userId,
    bounce_email_domain_id: domainId,
    ...(isSame ? {} : Object.fromEntries(bounceNames.map((name) => [name, null]))),
  }
}

/** A special sending rule has an id or a name: a given one replaces a stored one of the other kind. */
function replacedRule({
  special_sending_rule_id: id,
  special_sending_rule_name: name,
}: DispatchAttributes): Partial<TemplateDispatch> {
  if (id !== undefined && id !== null) return { special_sending_rule_name: null }
  return name !== undefined && name !== null ? { special_sending_rule_id: null } : {}
}

export function toDispatchView(dispatch: TemplateDispatch, zoneName: string): DispatchView {
  const { virtual_mta_id, virtual_mta_name, bounce_email_user_id, bounce_email_domain_id, begins_at } =
    dispatch
  const isDefaultRoute = virtual_mta_id === 0
  const { seed_list_id, seed_list_name } = dispatch
  return {
    state: 'idle',
    state_description: 'Idle',
    ...dispatch,
    virtual_mta_name: isDefaultRoute ? 'System Default Route' : virtual_mta_name,
    virtual_mta_type: isDefaultRoute ? 'default_route' : null,
    bounce_email_id:
      bounce_email_user_id === null ? null : `${bounce_email_user_id}@${bounce_email_domain_id}`,
    seed_lists: seed_list_id === null ? [] : [{ id: seed_list_id, name: seed_list_name }],
    begins_at: begins_at === null ? null : formatInstant(begins_at, zoneName),
    started_at: null,
    finished_at: null,
  }
}

export const dispatchDefaults: TemplateDispatch = {
  virtual_mta_id: null,
  virtual_mta_name: null,
  bounce_email_user_id: null,
  bounce_email_domain_id: null,
  bounce_email_name: null,
  bounce_email_email: null,
  url_domain_id: null,
  url_domain_name: null,
  url_domain_domain: null,
  seed_list_id: null,
  seed_list_name: null,
  special_sending_rule_id: null,
  special_sending_rule_name: null,
  speed: 0,
  track_opens: true,
  track_links: true,
  paused: false,
  from_name: null,
  from_email: null,
  reply_to: null,
  sender_email: null,
  begins_at: null,
  autowinner_enabled: false,
  autowinner_percentage: null,
  autowinner_delay_amount: null,
  autowinner_delay_unit: null,
  autowinner_metric: null,
}
