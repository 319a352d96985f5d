import type { z } from 'zod'
import type { autoresponderDocument, delaySettings, reactionDocument } from './autoresponder-schema.ts'

export const autoresponderTriggers = [
  'subscription',
  'api',
  'campaign_open',
  'campaign_click',
  'autoresponder_open',
  'autoresponder_nonopen',
  'autoresponder_click',
  'autoresponder_nonclick',
  'autoresponder_send',
] as const

export const delayUnits = ['minutes', 'hours', 'days', 'weeks', 'months'] as const

export type AutoresponderDocument = z.infer<typeof autoresponderDocument>

/** Reactions of an autoresponder without content are dropped when they become due, because there is no mail to send. */
export const hasContent = ({
  content_html: html,
  content_text: text,
}: Pick<AutoresponderDocument, 'content_html' | 'content_text'>): boolean =>
  [html, text].some((content) => content !== null && content.trim() !== '')

/** `hasContent` as an expression of a projection, so that a megabyte of mail isn't read. */
export const contentExpression = {
  $or: ['$content_html', '$content_text'].map((content) => ({
    $regexMatch: { input: { $ifNull: [content, ''] }, regex: String.raw`\S` },
  })),
}

/** The fields with the id of another autoresponder whose mail is the trigger. */
export const autoresponderTargets = [
  'trigger_autoresponder_to_open_id',
  'trigger_autoresponder_to_click_id',
  'trigger_autoresponder_to_send_id',
] as const

export type Delay = z.infer<typeof delaySettings>
export const delayProjection = { delay: 1, delay_amount: 1, delay_unit: 1, delay_time: 1 } as const

/** Default values of a creation. */
export const autoresponderDefaults: Omit<
  AutoresponderDocument,
  '_id' | 'organization_id' | 'mailing_list_id' | 'name' | 'name_key' | 'trigger' | 'created_at'
> = {
  paused: false,
  paused_at: null,
  delay: 'immediately',
  delay_amount: 0,
  delay_time: 0,
  delay_unit: null,
  from_email: null,
  from_name: null,
  reply_to: null,
  bounce_email_domain_id: null,
  bounce_email_user_id: null,
  url_domain_id: null,
  virtual_mta_id: null,
  use_external_delivery_setting: true,
  special_sending_rule_id: null,
  special_sending_rule_name: null,
  segmentation_criteria_id: null,
  segmentation_criteria_name: null,
  track_links: true,
  track_opens: true,
  trigger_autoresponder_to_click_id: null,
  trigger_autoresponder_to_click_on_any_url: null,
  trigger_autoresponder_to_click_urls: null,
  trigger_autoresponder_to_open_id: null,
  trigger_autoresponder_to_send_id: null,
  trigger_campaign_to_click_id: null,
  trigger_campaign_to_click_on_any_url: null,
  trigger_campaign_to_click_urls: null,
  trigger_campaign_to_open_id: null,
  trigger_include_subscribers_from_import: false,
  trigger_run_on_api: true,
  triggered_at: null,
  content_subject: null,
  content_format: 'both',
  content_html: null,
  content_text: null,
}

export type ReactionDocument = z.infer<typeof reactionDocument>

/**
 * `_id` of the one reaction that an import causes for a subscriber and an autoresponder. An `_id` says what caused the
 * reaction, so that it is queued once, whatever is retried: times would be those of several machines. A subscriber's
 * reactions are a range of `_id`, so a deletion needs no further index.
 */
export const importReactionId = (subscriberId: number, autoresponderId: number, importId: number): string =>
  `${subscriberId}:${autoresponderId}:import ${importId}`

/** `_id` of a reaction that a request causes. Each request is a separate cause. */
export const requestReactionId = (
  subscriberId: number,
  autoresponderId: number,
  reactionId: number,
): string => `${subscriberId}:${autoresponderId}:request ${reactionId}`

/** `_id` of the one reaction to an open, a click, the sending of a message, or the absence of an open or click. */
export const messageReactionId = (subscriberId: number, autoresponderId: number, messageId: string): string =>
  `${subscriberId}:${autoresponderId}:message ${messageId}`

/** `_id` of the mail that asks for a confirmation. */
export const confirmationId = (reactionId: number): string => `confirmation ${reactionId}`

/** The queue of an organization's confirmations, in the place of an autoresponder's id, which is never negative. */
export const confirmationQueue = (organizationId: number): number => -organizationId

/** Matches the `_id` of all reactions of a subscriber, as a range: ";" is the character after ":". */
export const reactionsOfSubscriber = (subscriberId: number) => ({
  $gte: `${subscriberId}:`,
  $lt: `${subscriberId};`,
})
