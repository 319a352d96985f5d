import { z } from 'zod'
import { recordFromKeys } from '../record-from-keys.ts'
import { id, instant, integer } from './bson-schema.ts'

/** Events that senders report about their mails, and the statistics of them. One transaction per call writes both. */

export const mailFormats = ['text', 'html', 'multipart'] as const
export const bounceTypes = ['hard', 'soft', 'other'] as const
export const bounceLocations = ['local', 'remote'] as const
export const skipReasons = ['error', 'request'] as const

export const deliveryEventTypes = [
  'sent',
  'delivered',
  'failed',
  'bounced',
  'opened',
  'clicked',
  'unsubscribed',
  'complained',
  'skipped',
] as const

/** An event as it was reported. It is never removed, so that a repeated event is recognized and counts once. */
export const deliveryEventDocument = z.object({
  /** See toldEventKey and tokenEventKey. */
  _id: z.string(),
  organization_id: id(),
  type: z.enum(deliveryEventTypes),
  occurred_at: instant(),
  message_id: z.string(),
  /** Null for a confirmation, and so is the subscriber. */
  autoresponder_id: id().nullable(),
  subscriber_id: id().nullable(),
  format: z.enum(mailFormats).optional(),
  too_long: z.boolean().optional(),
  bounce_type: z.enum(bounceTypes).optional(),
  bounce_location: z.enum(bounceLocations).optional(),
  bounce_code: z.string().optional(),
  privacy: z.boolean().optional(),
  url: z.string().optional(),
  reason: z.enum(skipReasons).optional(),
  created_at: instant(),
})
export type DeliveryEventDocument = z.infer<typeof deliveryEventDocument>

/** `_id` of an event that a sender reported under its own id, which is unique in the organization. */
export const toldEventKey = (organizationId: number, eventId: string): string =>
  `${organizationId}:told ${eventId}`

/** `_id` of the one unsubscription by the link of a message. */
export const tokenEventKey = (organizationId: number, messageKey: string): string =>
  `${organizationId}:token ${messageKey}`

/**
 * State of one message, independent of the order of its events. It enters the statistics once it is known to be sent.
 */
export const deliveryMessageDocument = z.object({
  /** See deliveryMessageKey. */
  _id: z.string(),
  /** YYYYMMDD in the organization's zone at that time; null until the message is known to be sent. */
  sent_day: integer().nullable(),
  format: z.enum(mailFormats).nullable(),
  delivered: z.boolean(),
  failed: z.enum(['failed', 'too_long']).nullable(),
  bounces: integer(),
  /** The first bounce that was reported. */
  bounce: z
    .object({ type: z.enum(bounceTypes), location: z.enum(bounceLocations), code: z.string() })
    .nullable(),
  opens: integer(),
  privacy_opens: integer(),
  clicks: integer(),
  /** Number of different links that were clicked. */
  links: integer(),
  unsubscriptions: integer(),
  complaints: integer(),
  /** How many times a bounce, an unsubscription or a complaint changed its subscriber's status. */
  bounce_moves: integer(),
  unsubscription_moves: integer(),
  complaint_moves: integer(),
  /** Times of the earliest open and the earliest click. */
  opened_at: instant().nullable(),
  clicked_at: instant().nullable(),
})
export type DeliveryMessageDocument = z.infer<typeof deliveryMessageDocument>

/**
 * `_id` of a message. Senders choose `messageId`, so autoresponder and subscriber are part of the key in case an id is
 * used twice.
 */
export const deliveryMessageKey = (
  autoresponderId: number,
  subscriberId: number,
  messageId: string,
): string => `${autoresponderId}:${subscriberId}:${messageId}`

/** A link of a message that was clicked. Each link is a document, because their number is unlimited. */
export const clickedLinkDocument = z.object({
  /** `<message>:<digest of the URL>`, see clickedLinkKey. */
  _id: z.string(),
  /** Time of the earliest click. */
  clicked_at: instant(),
})
export type ClickedLinkDocument = z.infer<typeof clickedLinkDocument>

/** Counters of an autoresponder's messages, by the day on which they were sent. */
export const dailyCounters = [
  'sent_text',
  'sent_html',
  'sent_multipart',
  'bounces_total',
  'bounces_unique',
  'bounces_unique_hard',
  'bounces_unique_soft',
  'bounces_unique_other',
  'bounces_unique_local',
  'bounces_unique_remote',
  'bounces_status_updated',
  'clicks_total',
  'clicks_unique',
  'clicks_unique_by_link',
  'opens_total',
  'opens_unique',
  /** Messages with a privacy open, all opens of these messages, and their privacy opens. */
  'privacy_messages',
  'privacy_messages_opens_total',
  'privacy_opens_total',
  'scomps_total',
  'scomps_unique',
  'scomps_status_updated',
  'unsubs_total',
  'unsubs_unique',
  'unsubs_status_updated',
  'skips_error',
  'skips_request',
  'total_success',
  'total_failure',
  'total_failure_toolong',
  /** Messages that were reported as delivered and as bounced. */
  'delivered_and_bounced',
  /** Outcomes (delivered, failed, bounced) after the first one of their message. */
  'further_outcomes',
] as const
export type DailyCounter = (typeof dailyCounters)[number]
export type DailyCounts = Record<DailyCounter, number>

/** Counters of a day are split into stripes, so that concurrent calls don't conflict. A missing counter is 0. */
export const autoresponderDayDocument = z.object({
  /** `<autoresponder_id>:<YYYYMMDD>:<stripe>`, so that the days of an autoresponder are a range. */
  _id: z.string(),
  ...recordFromKeys(dailyCounters, () => integer().optional()),
})
export type AutoresponderDayDocument = z.infer<typeof autoresponderDayDocument>

/** Unique bounces of a code, by autoresponder and day. Codes are user input, so they aren't used as field names. */
export const bounceCodeDocument = z.object({
  /** `<autoresponder_id>:<YYYYMMDD>:<stripe>:<code>` */
  _id: z.string(),
  code: z.string(),
  bounces: integer(),
})
export type BounceCodeDocument = z.infer<typeof bounceCodeDocument>
