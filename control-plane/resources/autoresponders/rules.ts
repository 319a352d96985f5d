import {
  autoresponderTargets,
  hasContent,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { RequestError } from '../../api/request-error.ts'
import { contentTooLarge, faultySettings, maxContentBytes } from './refusals.ts'

/** The rules between the fields of an autoresponder. Nothing here reads the database. */

type Field = keyof AutoresponderDocument
type Trigger = AutoresponderDocument['trigger']

/** The field that names the target of a trigger; null for triggers without a target. */
const targetFields = {
  subscription: null,
  api: null,
  autoresponder_open: 'trigger_autoresponder_to_open_id',
  autoresponder_nonopen: 'trigger_autoresponder_to_open_id',
  autoresponder_click: 'trigger_autoresponder_to_click_id',
  autoresponder_nonclick: 'trigger_autoresponder_to_click_id',
  autoresponder_send: 'trigger_autoresponder_to_send_id',
  campaign_open: 'trigger_campaign_to_open_id',
  campaign_click: 'trigger_campaign_to_click_id',
} as const satisfies Record<Trigger, Field | null>
type TargetField = NonNullable<(typeof targetFields)[Trigger]>

export type WithTargets = Pick<AutoresponderDocument, 'trigger' | (typeof autoresponderTargets)[number]>

/**
 * The autoresponder whose message triggers this one, and the field that names it. Target fields of other triggers may be
 * stored, and have no effect.
 */
export function triggeredBy(document: WithTargets): { field: TargetField; id: number } | null {
  const field = autoresponderTargets.find((name) => name === targetFields[document.trigger])
  const id = field === undefined ? null : document[field]
  return field === undefined || id === null ? null : { field, id }
}

/** A refusal for each broken rule; usually none. */
export function findFaults(document: AutoresponderDocument): RequestError[] {
  return [
    ...delayFaults(document),
    ...triggerFaults(document),
    ...(!document.use_external_delivery_setting && document.from_email === null
      ? [faultySettings.senderMissing()]
      : []),
    ...(hasContent(document) && document.content_subject === null ? [faultySettings.subjectMissing()] : []),
  ]
}

/** A fault when the contents and URLs are too large. Those that were too large before may still shrink. */
export function sizeFaults(document: AutoresponderDocument, stored: AutoresponderDocument): RequestError[] {
  const bytes = contentBytes(document)
  return bytes > maxContentBytes && bytes > contentBytes(stored) ? [contentTooLarge()] : []
}

const contentBytes = (document: AutoresponderDocument): number =>
  [
    document.content_html ?? '',
    document.content_text ?? '',
    ...(document.trigger_autoresponder_to_click_urls ?? []),
    ...(document.trigger_campaign_to_click_urls ?? []),
  ].reduce((sum, text) => sum + Buffer.byteLength(text), 0)

/** A century in each unit, so that every due time has a year of four digits, as ISO 8601 needs. */
const maxDelay = { minutes: 52_560_000, hours: 876_000, days: 36_500, weeks: 5_200, months: 1_200 }

function delayFaults({ delay, delay_amount, delay_time, delay_unit }: AutoresponderDocument): RequestError[] {
  const faults: RequestError[] = []
  if (delay === 'immediately') {
    if (delay_amount !== 0) faults.push(faultySettings.amountAtOnce())
    if (delay_time !== 0) faults.push(faultySettings.hourAtOnce())
    if (delay_unit !== null) faults.push(faultySettings.unitAtOnce())
    return faults
  }
  if (delay_unit === null) return [faultySettings.unitMissing()]
  if (delay_amount < 1) faults.push(faultySettings.noDelay())
  if (delay_amount > maxDelay[delay_unit])
    faults.push(faultySettings.delayTooLong(maxDelay[delay_unit], delay_unit))
  if (delay_time !== 0 && isElapsed(delay_unit)) faults.push(faultySettings.hourOfShortDelay(delay_unit))
  return faults
}

const isElapsed = (unit: AutoresponderDocument['delay_unit']): boolean =>
  unit === 'minutes' || unit === 'hours'

/** The fields that have only one possible value with this kind of delay. */
export function impliedByDelay({ delay, delay_unit }: AutoresponderDocument): Partial<AutoresponderDocument> {
  if (delay === 'immediately') return { delay_amount: 0, delay_time: 0, delay_unit: null }
  return isElapsed(delay_unit) ? { delay_time: 0 } : {}
}

function triggerFaults(document: AutoresponderDocument): RequestError[] {
  const { trigger } = document
  const faults: RequestError[] = []
  const target = targetFields[trigger]
  if (target !== null && document[target] === null) faults.push(faultySettings.targetMissing(target, trigger))
  const clicks = clickFields(target)
  if (clicks !== null && document[clicks.anyUrl] !== true && (document[clicks.urls] ?? []).length === 0)
    faults.push(faultySettings.noUrl(clicks.anyUrl, clicks.urls, trigger))
  if (trigger.includes('_non') && document.delay === 'immediately')
    faults.push(faultySettings.silenceAtOnce(trigger))
  return faults
}

function clickFields(target: TargetField | null) {
  if (target === 'trigger_campaign_to_click_id')
    return {
      anyUrl: 'trigger_campaign_to_click_on_any_url',
      urls: 'trigger_campaign_to_click_urls',
    } as const
  if (target === 'trigger_autoresponder_to_click_id')
    return {
      anyUrl: 'trigger_autoresponder_to_click_on_any_url',
      urls: 'trigger_autoresponder_to_click_urls',
    } as const
  return null
}
