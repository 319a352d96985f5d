import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'
import { contentFormats } from './campaign-template.ts'
import { autoresponderTriggers, delayUnits } from './autoresponder.ts'

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

/** The fields of an autoresponder from which the due time of its reactions is computed. */
export const delaySettings = autoresponderDocument.pick({
  delay: true,
  delay_amount: true,
  delay_unit: true,
  delay_time: true,
})

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
