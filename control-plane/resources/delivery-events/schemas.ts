import { z } from 'zod'
import {
  bounceLocations,
  bounceTypes,
  deliveryEventTypes,
  mailFormats,
  skipReasons,
  type DeliveryEventDocument,
} from '../../../shared/contract/schemas/delivery.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import { flag, oneOf, positiveId } from '../../api/fields.ts'

/** Requests and replies of `POST /delivery_events`. */

const text = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .refine((value) => !value.includes('\0'), { error: 'must not hold NUL characters' })

/** The bounds keep the local day of every zone within years of four digits. */
const isSendingTime = (value: string): boolean => {
  const year = parseApiTime(value, 'UTC')?.getUTCFullYear()
  return year !== undefined && year >= 1970 && year < 9_999
}

const timeExpectation = 'must be a time in ISO 8601 with T, such as 2026-11-21T09:00:00Z, not before 1970'
const bothExpectation = 'must be given with autoresponder_id, or both be null'

const common = {
  id: text(255)
    .min(1)
    .describe('chosen by the sender, unique in the organization: a repeated one counts once'),
  occurred_at: z
    .string()
    .refine(isSendingTime, {
      error: timeExpectation,
    })
    .describe("ISO 8601 with `T`, from 1970 on; without an offset it is the organization's local time"),
  message_id: text(255)
    .min(1)
    .describe('unique for each mail; the id of the outbox message, as a string, is suitable'),
  autoresponder_id: positiveId().nullable().default(null),
  subscriber_id: positiveId().nullable().default(null).describe('the recipient; null for a confirmation'),
}

type EventType = (typeof deliveryEventTypes)[number]

const eventOf = <const Type extends EventType, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.object({ type: z.literal(type).describe('what happened'), ...common, ...shape })

const deliveryEvent = z
  .discriminatedUnion(
    'type',
    [
      eventOf('sent', { format: oneOf(mailFormats).describe('the format of the mail') }),
      eventOf('delivered', {}),
      eventOf('failed', { too_long: flag().describe('whether it was given up after too long in the queue') }),
      eventOf('bounced', {
        bounce_type: oneOf(bounceTypes).describe('a hard one makes an active subscriber `bounced`'),
        bounce_location: oneOf(bounceLocations).describe("the sender's own system, or the recipient's"),
        bounce_code: text(255).describe("the sender's code for the bounce, such as 5.1.1"),
      }),
      eventOf('opened', {
        privacy: flag().describe('whether a privacy proxy may have opened it instead of the recipient'),
      }),
      eventOf('clicked', { url: text(8_192).min(1).describe('the link, as written in the mail') }),
      eventOf('unsubscribed', {}),
      eventOf('complained', {}),
      eventOf('skipped', {
        reason: oneOf(skipReasons).describe('why a special sending rule prevented the mail'),
      }),
    ],
    { error: (issue) => (issue.code === 'invalid_union' ? `must be one of ${typeNames}` : undefined) },
  )
  .refine(
    ({ autoresponder_id: autoresponder, subscriber_id: subscriber }) =>
      (autoresponder === null) === (subscriber === null),
    { path: ['subscriber_id'], error: bothExpectation },
  )
export type DeliveryEvent = z.infer<typeof deliveryEvent>

type ToRecorded<Event> = Event extends DeliveryEvent
  ? Omit<Event, 'id' | 'occurred_at'> &
      Pick<DeliveryEventDocument, '_id' | 'organization_id' | 'occurred_at' | 'created_at'>
  : never
/** An event as it is stored, with the fields of its type. */
export type RecordedEvent = ToRecorded<DeliveryEvent>

const typeNames = deliveryEventTypes.map((type) => JSON.stringify(type)).join(', ')

export const deliveryEvents = z.array(deliveryEvent)

/** Keys that the schema refuses in an event that was sent. */
export const faultyEvents = [
  { type: 'returned' },
  { id: 7 },
  { id: '' },
  { id: 'x'.repeat(256) },
  { occurred_at: '2026-06-15' },
  { occurred_at: '0000-01-01T00:00:00Z' },
  { message_id: 5 },
  { message_id: 'x\0' },
  { autoresponder_id: '1' },
  { subscriber_id: 0 },
  { subscriber_id: null },
  { format: undefined },
  { format: 'both' },
  { too_long: undefined, type: 'failed' },
  { bounce_code: undefined, type: 'bounced', bounce_type: 'hard', bounce_location: 'remote' },
  { privacy: 'true', type: 'opened' },
  { url: null, type: 'clicked' },
  { reason: { $gt: '' }, type: 'skipped' },
]

export const deliveryEventsView = z
  .object({
    accepted: z.int().min(0).describe('events that were recorded'),
    duplicates: z.int().min(0).describe('events whose id was reported before'),
    ignored: z
      .int()
      .min(0)
      .describe('events of records that never existed or belong to another organization'),
  })
  .meta({ id: 'DeliveryEvents' })

const mail = (i = 0) => ({ message_id: `${70_012 + i}`, autoresponder_id: 31, subscriber_id: 9001 + i })
const at = (second: number) => `2026-11-21T09:00:${String(second).padStart(2, '0')}Z`

export const exampleEvents = [
  { id: 'e1', type: 'sent', occurred_at: at(0), ...mail(), format: 'multipart' },
  { id: 'e2', type: 'delivered', occurred_at: at(2), ...mail() },
  { id: 'e3', type: 'opened', occurred_at: at(30), ...mail(), privacy: false },
  { id: 'e4', type: 'clicked', occurred_at: at(40), ...mail(), url: 'https://www.example.com/offer' },
  { id: 'e5', type: 'unsubscribed', occurred_at: at(50), ...mail() },
  { id: 'e6', type: 'complained', occurred_at: at(55), ...mail() },
  {
    id: 'e7',
    type: 'bounced',
    occurred_at: at(3),
    ...mail(1),
    bounce_type: 'hard',
    bounce_location: 'remote',
    bounce_code: '5.1.1',
  },
  { id: 'e8', type: 'failed', occurred_at: at(4), ...mail(2), too_long: true },
  { id: 'e9', type: 'skipped', occurred_at: at(5), ...mail(3), reason: 'request' },
  {
    id: 'e10',
    type: 'delivered',
    occurred_at: at(6),
    message_id: '70016',
    autoresponder_id: null,
    subscriber_id: null,
  },
]
