import type { ImportState } from '../../../shared/contract/import-state.ts'
import type { AutoresponderDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import { invalid, notFound, takenByAnother } from '../../api/refusal.ts'

export const noAutoresponder = notFound('autoresponder')

export const nameTaken = takenByAnother('autoresponder of the list', 'Welcome')

type Trigger = AutoresponderDocument['trigger']

/** What the settings of an autoresponder are refused for, whatever else is stored. */
export const faultySettings = {
  senderMissing: invalid('from_email is required when use_external_delivery_setting is false'),
  subjectMissing: invalid('content_subject is required with content_html or content_text'),
  amountAtOnce: invalid('delay_amount must be 0 while delay is immediately'),
  hourAtOnce: invalid('delay_time must be 0 while delay is immediately'),
  unitAtOnce: invalid('delay_unit must be null while delay is immediately'),
  unitMissing: invalid('delay_unit is required while delay is with_delay'),
  noDelay: invalid('delay_amount must be at least 1 while delay is with_delay'),
  delayTooLong: invalid(
    (max: number, unit: string) => `delay_amount must be at most ${max} ${unit}`,
    36_500,
    'days',
  ),
  hourOfShortDelay: invalid((unit: string) => `delay_time must be 0 with a delay in ${unit}`, 'minutes'),
  silenceAtOnce: invalid(
    (trigger: Trigger) =>
      `delay must be with_delay for trigger ${trigger}, because it fires when no ${trigger.endsWith('nonopen') ? 'open' : 'click'} came within the delay`,
    'autoresponder_nonopen',
  ),
  targetMissing: invalid(
    (field: string, trigger: Trigger) => `${field} is required by trigger ${trigger}`,
    'trigger_campaign_to_open_id',
    'campaign_open',
  ),
  noUrl: invalid(
    (anyUrl: string, urls: string, trigger: Trigger) =>
      `${anyUrl} must be true, or ${urls} must list URLs, for trigger ${trigger}`,
    'trigger_campaign_to_click_on_any_url',
    'trigger_campaign_to_click_urls',
    'campaign_click',
  ),
}

export const noSuchTarget = invalid(
  (field: string, id: number) => `${field}: there is no autoresponder ${id} in the organization`,
  'trigger_autoresponder_to_send_id',
  4711,
)

export const isTarget = invalid(
  (id: number, other: number) =>
    `autoresponder ${id} can't be deleted, because autoresponder ${other} is triggered by its mails: change or delete that one first`,
  5,
  7,
)
export const isTriggeredByImport = invalid(
  (id: number, importId: number, state: ImportState) =>
    `autoresponder ${id} can't be deleted, because import ${importId} of the list, which is ${state}, triggers it: wait for its end, or cancel it`,
  5,
  41,
  'scheduled',
)

const maxNamedIds = 10
export const wouldBeCycle = invalid(
  (field: string, ids: readonly number[]) => {
    const named = ids.length > maxNamedIds ? [...ids.slice(0, maxNamedIds), '...'] : ids
    return `${field}: autoresponders can't trigger each other in a cycle, and ${named.join(' <- ')} would be one`
  },
  'trigger_autoresponder_to_send_id',
  [7, 9, 7],
)

/** The limit of a request's body, because replies, pages and outbox messages contain the whole content. */
export const maxContentBytes = binaryMegabyte
export const contentTooLarge = invalid(
  `content_html, content_text and the URLs must have at most ${maxContentBytes} bytes in all`,
)
