import { z } from 'zod'
import { noDailyCounts } from '../delivery-events/message-state.ts'
import { computeStatistics } from './view.ts'

/** Requests and replies of an autoresponder's statistics. */

export const dayExpectation = 'must be a date of 8 digits, such as 20261121, or blank'

/** 8 digits become a number; a blank text becomes undefined. */
const day = (which: string) =>
  z
    .string()
    .optional()
    .transform((text, context): number | undefined => {
      if (text === undefined || text.trim() === '') return undefined
      if (isDay(text)) return Number(text)
      context.addIssue({ code: 'custom', message: dayExpectation })
      return z.NEVER
    })
    .meta({
      description: `${which} sending day of the period, as 8 digits YYYYMMDD; without it the period is open`,
      override: { type: 'string', pattern: String.raw`^\s*$|^\d{8}$` },
    })

function isDay(text: string): boolean {
  if (!/^\d{8}$/.test(text)) return false
  const iso = `${text.slice(0, 4)}-${text.slice(4, 6)}-${text.slice(6)}`
  const time = Date.parse(iso)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(iso)
}

export const sendingDays = z.object({ start_date: day('first'), end_date: day('last') })

const count = (meaning: string) => z.int().describe(meaning)
const rate = (meaning: string) =>
  z.number().describe(`${meaning}; at most six decimals, 0 for a divisor of 0`)

const opens = (description: string) =>
  z
    .object({
      opens_unique: count('unique opens'),
      opens_unique_rate: rate('unique opens by subscriber_count'),
      opens_total: count('all opens'),
      privacy_opens_unique: count('recipients with a privacy open'),
      privacy_opens_unique_rate: rate('the same by subscriber_count'),
      privacy_opens_total: count('privacy opens'),
      nonprivacy_opens_unique: count('opens_unique less privacy_opens_unique'),
      nonprivacy_opens_unique_rate: rate('the same by subscriber_count'),
      nonprivacy_opens_total: count('opens_total less privacy_opens_total'),
      subscriber_count: count('recipients'),
    })
    .describe(description)

export const statisticsView = z
  .object({
    sent_text: count('recipients sent a text message'),
    sent_html: count('recipients sent an HTML message'),
    sent_multipart: count('recipients sent a multipart message'),
    messages_sent: count('recipients in all'),
    messages_html: count('recipients of an HTML or multipart message'),
    messages_text: count('recipients of a text message'),
    bounces_total: count('bounces in all'),
    bounces_unique: count('messages that bounced; type and code are those of the first bounce'),
    bounces_unique_hard: count('hard bounces of them'),
    bounces_unique_soft: count('soft bounces of them'),
    bounces_unique_other: count('other bounces of them'),
    bounces_unique_local: count("bounces of the sender's own system"),
    bounces_unique_remote: count("bounces of the recipient's system"),
    bounces_status_updated: count('recipients with the status `bounced` because of a bounce'),
    bounces_unique_by_code: z
      .record(z.string(), z.int())
      .describe('unique bounces by code; at most the 100,000 most frequent codes'),
    bounced: count('deprecated: bounces_unique').meta({ deprecated: true }),
    duplicate_bounces: count('bounces_total less bounces_unique'),
    unbounced: count('messages sent that have not bounced'),
    bounce_rate: rate('bounces_unique by messages_sent'),
    bounce_rate_hard: rate('hard ones by bounces_unique'),
    bounce_rate_soft: rate('soft ones by bounces_unique'),
    bounce_rate_other: rate('other ones by bounces_unique'),
    bounce_local_rate: rate('local ones by bounces_unique'),
    clicks_total: count('clicks in all'),
    clicks_unique: count('messages that were clicked'),
    clicks_unique_by_link: count(
      'deprecated: different links that were clicked, counted once for each message',
    ).meta({
      deprecated: true,
    }),
    duplicate_clicks: count('clicks_total less clicks_unique'),
    click_rate: rate('clicks_unique by accepted'),
    click_to_open_rate: rate('clicks_unique by opens_unique'),
    unclicked: count('accepted less clicks_unique, at least 0'),
    opens_total: count('opens in all'),
    opens_unique: count('messages that were opened'),
    open_rate: rate('opens_unique by accepted'),
    open_ratio: rate('opens_total by opens_unique'),
    unopened: count('accepted less opens_unique, at least 0'),
    duplicate_opens: count('opens_total less opens_unique'),
    scomps_total: count('spam complaints in all'),
    scomps_unique: count('messages with a complaint'),
    scomps_status_updated: count('recipients with the status `scomp` because of a complaint'),
    duplicate_scomps: count('scomps_total less scomps_unique'),
    scomp_rate: rate('scomps_unique by accepted'),
    unsubs_total: count('unsubscriptions in all'),
    unsubs_unique: count('messages with an unsubscription'),
    unsubs_status_updated: count('recipients with the status `unsubscribed` because of it'),
    duplicate_unsubs: count('unsubs_total less unsubs_unique'),
    unsub_rate: rate('unsubs_unique by accepted'),
    skips_error: count('mails skipped because of an error of a special sending rule'),
    skips_request: count('mails skipped on request of a special sending rule'),
    total_messages: count('messages_sent'),
    total_success: count('messages delivered to the remote server'),
    total_failure: count('messages that failed'),
    total_failure_toolong: count('messages that failed after too long in the queue'),
    accepted: count('messages that were delivered and have not bounced'),
    accepted_rate: rate('accepted by messages_sent'),
    in_queue: count('messages that have neither been delivered nor failed nor bounced'),
    in_queue_rate: rate('in_queue by total_messages'),
    max_unique_activities: count('largest of unique opens, clicks, unsubscriptions and complaints'),
    privacy_protection: z
      .object({
        all_subscribers: opens('of all recipients'),
        privacy_subscribers: opens('of recipients with a privacy open'),
        nonprivacy_subscribers: opens('of all others'),
      })
      .describe('opens, separated by whether a privacy proxy may have caused them'),
  })
  .meta({ id: 'AutoresponderStatistics' })

export const exampleStatistics: z.infer<typeof statisticsView> = computeStatistics(
  {
    ...noDailyCounts(),
    sent_html: 40,
    sent_multipart: 160,
    total_success: 195,
    total_failure: 5,
    bounces_total: 5,
    bounces_unique: 4,
    bounces_unique_hard: 3,
    bounces_unique_soft: 1,
    bounces_unique_remote: 4,
    bounces_status_updated: 3,
    opens_total: 120,
    opens_unique: 90,
    privacy_messages: 20,
    privacy_messages_opens_total: 30,
    privacy_opens_total: 25,
    clicks_total: 31,
    clicks_unique: 28,
    clicks_unique_by_link: 30,
    unsubs_total: 2,
    unsubs_unique: 2,
    unsubs_status_updated: 2,
  },
  { '5.1.1': 3, '4.2.2': 1 },
)
