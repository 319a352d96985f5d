import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'
import { contentFormats } from './campaign-template.ts'

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

/** A mail that is sent when something happens to a subscriber of the list. */
export const autoresponderDocument = z.object({
  _id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  name: z.string(),
  /** Comparison form of the name, unique in the list. */
  name_key: z.string(),
  /** While it is paused, reactions are queued but no message is handed out. */
  paused: z.boolean(),
  paused_at: instant().nullable(),
  delay: z.enum(['immediately', 'with_delay']),
  /** 0 without a delay. */
  delay_amount: integer(),
  /** Hour of the day in the organization's zone, for days and longer; 0 otherwise. */
  delay_time: integer(),
  delay_unit: z.enum(delayUnits).nullable(),
  from_email: z.string().nullable(),
  from_name: z.string().nullable(),
  reply_to: z.string().nullable(),
  bounce_email_domain_id: integer().nullable(),
  bounce_email_user_id: integer().nullable(),
  url_domain_id: integer().nullable(),
  virtual_mta_id: integer().nullable(),
  use_external_delivery_setting: z.boolean(),
  special_sending_rule_id: integer().nullable(),
  special_sending_rule_name: z.string().nullable(),
  segmentation_criteria_id: integer().nullable(),
  segmentation_criteria_name: z.string().nullable(),
  track_links: z.boolean(),
  track_opens: z.boolean(),
  trigger: z.enum(autoresponderTriggers),
  trigger_autoresponder_to_click_id: id().nullable(),
  trigger_autoresponder_to_click_on_any_url: z.boolean().nullable(),
  trigger_autoresponder_to_click_urls: z.array(z.string()).nullable(),
  trigger_autoresponder_to_open_id: id().nullable(),
  trigger_autoresponder_to_send_id: id().nullable(),
  trigger_campaign_to_click_id: id().nullable(),
  trigger_campaign_to_click_on_any_url: z.boolean().nullable(),
  trigger_campaign_to_click_urls: z.array(z.string()).nullable(),
  trigger_campaign_to_open_id: id().nullable(),
  /** For the trigger `subscription`: whether subscribers added by an import trigger it. */
  trigger_include_subscribers_from_import: z.boolean(),
  /** For the trigger `subscription`: whether subscribers added by a request trigger it. */
  trigger_run_on_api: z.boolean(),
  /** When its last reaction was queued; updated at most once a day. */
  triggered_at: instant().nullable(),
  content_subject: z.string().nullable(),
  content_format: z.enum(contentFormats),
  content_html: z.string().nullable(),
  content_text: z.string().nullable(),
  created_at: instant(),
})
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

/** The fields of an autoresponder from which the due time of its reactions is computed. */
export const delaySettings = autoresponderDocument.pick({
  delay: true,
  delay_amount: true,
  delay_unit: true,
  delay_time: true,
})
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

/**
 * A reaction: an autoresponder's pending or past answer to something that happened to a subscriber, or the mail of a
 * confirmation form. It is written in the transaction of its cause, so that neither exists without the other. It is the
 * message that mail senders take: it refers to its recipient and its texts, which are read when it is taken.
 */
export const reactionDocument = z.object({
  /**
   * See importReactionId, requestReactionId, messageReactionId and confirmationId. Reactions of a subscriber are
   * neighbours in `_id` order, and a cause makes one at most.
   */
  _id: z.string(),
  id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  /** The autoresponder; for a confirmation the negative id of the organization. Each value is a queue of its own. */
  autoresponder_id: integer(),
  /** Null for a confirmation. */
  subscriber_id: id().nullable(),
  /** `_id` of the pending subscriber that a confirmation is for; absent otherwise. */
  pending_subscriber: z.string().optional(),
  /** The import that caused it; null for other causes. */
  import_id: id().nullable(),
  /**
   * queued: not sent yet; in the API `queued` before its due time, then `due`, or `dropped` where its autoresponder has
   * no content, and `held` while the autoresponder is paused. sent: a sender has acknowledged it. dropped: it won't be
   * sent. A confirmation that was sent or dropped is deleted.
   */
  state: z.enum(['queued', 'sent', 'dropped']),
  due_at: instant(),
  /** When it can be taken: its due time; after it was taken, the time at which its lease expires. */
  available_at: instant(),
  /** The last lease. Its token acknowledges until another sender takes the message. Absent while there was none. */
  lease: z.object({ token: z.string(), began_at: instant() }).optional(),
  /**
   * The subscriber's `reactivations` when it was queued; absent for 0. It isn't sent when the subscriber's number
   * differs.
   */
  reactivations: integer().optional(),
  /** Fields for the mail from a trigger call, with keys as given; absent when the call had none. */
  fields: z.record(z.string(), z.string()).optional(),
  raw_fields: z.record(z.string(), z.string()).optional(),
  created_at: instant(),
})
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
