import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/** What senders tell of their mails, and the figures that come of it. Written together, in one transaction a call. */

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

/** An event as it was told. Kept for good: that it is there is what makes a repeated one count once. */
export const deliveryEventDocument = z.object({
  /** See toldEventKey and tokenEventKey. */
  _id: z.string(),
  organization_id: id(),
  type: z.enum(deliveryEventTypes),
  occurred_at: instant(),
  message_id: z.string(),
  /** Null, with the subscriber, for a confirmation. */
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

/** `_id` of an event that a sender told: its own id, unique in the organization. */
export const toldEventKey = (organizationId: number, eventId: string): string =>
  `${organizationId}:told ${eventId}`

/** `_id` of the one unsubscription that the token of a message makes. */
export const tokenEventKey = (organizationId: number, messageKey: string): string =>
  `${organizationId}:token ${messageKey}`

/** What became of one message so far, in whatever order it was told; counted from when it is known to be sent. */
export const deliveryMessageDocument = z.object({
  /** See deliveryMessageKey. */
  _id: z.string(),
  /** YYYYMMDD in the organization's zone, as it was then; null until the message is known to be sent. */
  sent_day: integer().nullable(),
  format: z.enum(mailFormats).nullable(),
  delivered: z.boolean(),
  failed: z.enum(['failed', 'too_long']).nullable(),
  bounces: integer(),
  /** The first one that came. */
  bounce: z
    .object({ type: z.enum(bounceTypes), location: z.enum(bounceLocations), code: z.string() })
    .nullable(),
  opens: integer(),
  privacy_opens: integer(),
  clicks: integer(),
  /** Different ones that were clicked. */
  links: integer(),
  unsubscriptions: integer(),
  complaints: integer(),
  /** How often its subscriber was moved by a bounce, an unsubscription, a complaint. */
  bounce_moves: integer(),
  unsubscription_moves: integer(),
  complaint_moves: integer(),
  /** Of the earliest open, the earliest click. */
  opened_at: instant().nullable(),
  clicked_at: instant().nullable(),
})
export type DeliveryMessageDocument = z.infer<typeof deliveryMessageDocument>

/** A message is what its sender calls so for one autoresponder and subscriber: an id used twice mixes nothing up. */
export const deliveryMessageKey = (
  autoresponderId: number,
  subscriberId: number,
  messageId: string,
): string => `${autoresponderId}:${subscriberId}:${messageId}`

/** That a link of a message was clicked: a document each, as nothing bounds how many different ones there are. */
export const clickedLinkDocument = z.object({
  /** `<message>:<digest of the URL>`, see clickedLinkKey. */
  _id: z.string(),
  /** The earliest click. */
  clicked_at: instant(),
})
export type ClickedLinkDocument = z.infer<typeof clickedLinkDocument>

/** What is summed up of an autoresponder's messages, by the day on which they were sent. */
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
  /** Messages with a privacy open, all their opens, and those of them that are privacy opens. */
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
  /** Messages that were delivered and bounced nonetheless. */
  'delivered_and_bounced',
  /** Outcomes (delivered, failed, bounced) of messages beyond their first. */
  'further_outcomes',
] as const
export type DailyCounter = (typeof dailyCounters)[number]
export type DailyCounts = Record<DailyCounter, number>

/** Kept as stripes, so that calls side by side don't wait for each other; a counter that isn't there is 0. */
export const autoresponderDayDocument = z.object({
  /** `<autoresponder_id>:<YYYYMMDD>:<stripe>`: the days of an autoresponder are a range. */
  _id: z.string(),
  ...(Object.fromEntries(dailyCounters.map((name) => [name, integer().optional()])) as Record<
    DailyCounter,
    z.ZodOptional<z.ZodNumber>
  >),
})
export type AutoresponderDayDocument = z.infer<typeof autoresponderDayDocument>

/** Unique bounces of a code, by autoresponder and day. Codes come from outside, so none is the name of a field. */
export const bounceCodeDocument = z.object({
  /** `<autoresponder_id>:<YYYYMMDD>:<stripe>:<code>` */
  _id: z.string(),
  code: z.string(),
  bounces: integer(),
})
export type BounceCodeDocument = z.infer<typeof bounceCodeDocument>
