import { z } from 'zod'
import { noDailyCounts } from '../delivery-events/message-state.ts'
import { statisticsOf } from './formulas.ts'

/** What goes into and comes out of an autoresponder's statistics. */

export const dayExpectation = 'must be a date of 8 digits, such as 20261121, or blank'

/** 8 digits, as a number; undefined where blank. */
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
      description: `${which} sending day that counts, as 8 digits YYYYMMDD; without it there is no such bound`,
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
const part = (meaning: string) =>
  z.number().describe(`${meaning}; at most six decimals, 0 for a divisor of 0`)

const opens = (whose: string) =>
  z
    .object({
      opens_unique: count('unique opens'),
      opens_unique_rate: part('unique opens by subscriber_count'),
      opens_total: count('all opens'),
      privacy_opens_unique: count('recipients with a privacy open'),
      privacy_opens_unique_rate: part('the same by subscriber_count'),
      privacy_opens_total: count('privacy opens'),
      nonprivacy_opens_unique: count('opens_unique less privacy_opens_unique'),
      nonprivacy_opens_unique_rate: part('the same by subscriber_count'),
      nonprivacy_opens_total: count('opens_total less privacy_opens_total'),
      subscriber_count: count('recipients'),
    })
    .describe(whose)

export const statisticsView = z
  .object({
    sent_text: count('recipients sent a text message'),
    sent_html: count('recipients sent an HTML message'),
    sent_multipart: count('recipients sent a multipart message'),
    messages_sent: count('recipients in all'),
    messages_html: count('recipients of an HTML or multipart message'),
    messages_text: count('recipients of a text message'),
    bounces_total: count('bounces in all'),
    bounces_unique: count('messages that bounced; what they bounced for is that of the first time'),
    bounces_unique_hard: count('hard ones of them'),
    bounces_unique_soft: count('soft ones of them'),
    bounces_unique_other: count('other ones of them'),
    bounces_unique_local: count("those of the sender's own system"),
    bounces_unique_remote: count("those of the recipient's"),
    bounces_status_updated: count('recipients whom a bounce made `bounced`'),
    bounces_unique_by_code: z
      .record(z.string(), z.int())
      .describe('unique bounces by their code, of the 100,000 codes that have most'),
    bounced: count('deprecated: bounces_unique').meta({ deprecated: true }),
    duplicate_bounces: count('bounces_total less bounces_unique'),
    unbounced: count('messages sent that have not bounced'),
    bounce_rate: part('bounces_unique by messages_sent'),
    bounce_rate_hard: part('hard ones by bounces_unique'),
    bounce_rate_soft: part('soft ones by bounces_unique'),
    bounce_rate_other: part('other ones by bounces_unique'),
    bounce_local_rate: part('local ones by bounces_unique'),
    clicks_total: count('clicks in all'),
    clicks_unique: count('messages that were clicked'),
    clicks_unique_by_link: count('deprecated: links that were clicked, each once a message').meta({
      deprecated: true,
    }),
    duplicate_clicks: count('clicks_total less clicks_unique'),
    click_rate: part('clicks_unique by accepted'),
    click_to_open_rate: part('clicks_unique by opens_unique'),
    unclicked: count('accepted less clicks_unique, at least 0'),
    opens_total: count('opens in all'),
    opens_unique: count('messages that were opened'),
    open_rate: part('opens_unique by accepted'),
    open_ratio: part('opens_total by opens_unique'),
    unopened: count('accepted less opens_unique, at least 0'),
    duplicate_opens: count('opens_total less opens_unique'),
    scomps_total: count('spam complaints in all'),
    scomps_unique: count('messages that were complained of'),
    scomps_status_updated: count('recipients whom a complaint made `scomp`'),
    duplicate_scomps: count('scomps_total less scomps_unique'),
    scomp_rate: part('scomps_unique by accepted'),
    unsubs_total: count('unsubscriptions in all'),
    unsubs_unique: count('messages that were answered by unsubscribing'),
    unsubs_status_updated: count('recipients whom this made `unsubscribed`'),
    duplicate_unsubs: count('unsubs_total less unsubs_unique'),
    unsub_rate: part('unsubs_unique by accepted'),
    skips_error: count('skipped by an error of a special sending rule'),
    skips_request: count('skipped at the request of a special sending rule'),
    total_messages: count('messages_sent'),
    total_success: count('messages delivered to the remote server'),
    total_failure: count('messages that were given up'),
    total_failure_toolong: count('those of them that were queued for too long'),
    accepted: count('messages that were delivered and have not bounced'),
    accepted_rate: part('accepted by messages_sent'),
    in_queue: count('messages that are neither delivered nor given up nor bounced'),
    in_queue_rate: part('in_queue by total_messages'),
    max_unique_activities: count('largest of unique opens, clicks, unsubscriptions and complaints'),
    privacy_protection: z
      .object({
        all_subscribers: opens('of all recipients'),
        privacy_subscribers: opens('of recipients with a privacy open'),
        nonprivacy_subscribers: opens('of all others'),
      })
      .describe('opens by whether a privacy proxy may have made them'),
  })
  .meta({ id: 'AutoresponderStatistics' })

export const exampleStatistics: z.infer<typeof statisticsView> = statisticsOf(
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
