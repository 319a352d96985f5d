import type { DailyCounts } from '../../../shared/contract/schemas/delivery.ts'

/**
 * Computes the statistics of an autoresponder from its summed counts. `accepted` are messages that were delivered and
 * didn't bounce; `in_queue` are messages without an outcome. A rate with divisor 0 is 0.
 */
export function computeStatistics(counts: DailyCounts, bounceCodes: Readonly<Record<string, number>>) {
  // All other counters are shown as they are.
  const {
    delivered_and_bounced,
    further_outcomes,
    privacy_messages: _messages,
    privacy_messages_opens_total: _opensOfMessages,
    privacy_opens_total: _opens,
    ...shown
  } = counts
  const html = counts.sent_html + counts.sent_multipart
  const sent = counts.sent_text + html
  const bounces = counts.bounces_unique
  const accepted = counts.total_success - delivered_and_bounced
  const outcomes = counts.total_success + counts.total_failure + bounces - further_outcomes
  const inQueue = Math.max(0, sent - outcomes)
  return {
    ...shown,
    messages_sent: sent,
    messages_html: html,
    messages_text: counts.sent_text,
    bounces_unique_by_code: bounceCodes,
    bounced: bounces,
    duplicate_bounces: counts.bounces_total - bounces,
    unbounced: sent - bounces,
    bounce_rate: rate(bounces, sent),
    bounce_rate_hard: rate(counts.bounces_unique_hard, bounces),
    bounce_rate_soft: rate(counts.bounces_unique_soft, bounces),
    bounce_rate_other: rate(counts.bounces_unique_other, bounces),
    bounce_local_rate: rate(counts.bounces_unique_local, bounces),
    duplicate_clicks: counts.clicks_total - counts.clicks_unique,
    click_rate: rate(counts.clicks_unique, accepted),
    click_to_open_rate: rate(counts.clicks_unique, counts.opens_unique),
    unclicked: Math.max(0, accepted - counts.clicks_unique),
    open_rate: rate(counts.opens_unique, accepted),
    open_ratio: rate(counts.opens_total, counts.opens_unique),
    unopened: Math.max(0, accepted - counts.opens_unique),
    duplicate_opens: counts.opens_total - counts.opens_unique,
    duplicate_scomps: counts.scomps_total - counts.scomps_unique,
    scomp_rate: rate(counts.scomps_unique, accepted),
    duplicate_unsubs: counts.unsubs_total - counts.unsubs_unique,
    unsub_rate: rate(counts.unsubs_unique, accepted),
    total_messages: sent,
    accepted,
    accepted_rate: rate(accepted, sent),
    in_queue: inQueue,
    in_queue_rate: rate(inQueue, sent),
    max_unique_activities: Math.max(
      counts.opens_unique,
      counts.clicks_unique,
      counts.unsubs_unique,
      counts.scomps_unique,
    ),
    privacy_protection: countOpensByPrivacy(counts, sent),
  }
}

/** Subscribers are counted once for each message. Those without a privacy open are the nonprivacy ones. */
function countOpensByPrivacy(counts: DailyCounts, sent: number) {
  const all = {
    subscriber_count: sent,
    opens_unique: counts.opens_unique,
    opens_total: counts.opens_total,
    privacy_opens_unique: counts.privacy_messages,
    privacy_opens_total: counts.privacy_opens_total,
  }
  const privacy = {
    subscriber_count: counts.privacy_messages,
    opens_unique: counts.privacy_messages,
    opens_total: counts.privacy_messages_opens_total,
    privacy_opens_unique: counts.privacy_messages,
    privacy_opens_total: counts.privacy_opens_total,
  }
  const nonprivacy = {
    subscriber_count: all.subscriber_count - privacy.subscriber_count,
    opens_unique: all.opens_unique - privacy.opens_unique,
    opens_total: all.opens_total - privacy.opens_total,
    privacy_opens_unique: 0,
    privacy_opens_total: 0,
  }
  return {
    all_subscribers: rateOpens(all),
    privacy_subscribers: rateOpens(privacy),
    nonprivacy_subscribers: rateOpens(nonprivacy),
  }
}

interface Opens {
  subscriber_count: number
  opens_unique: number
  opens_total: number
  privacy_opens_unique: number
  privacy_opens_total: number
}

function rateOpens(opens: Opens) {
  const { subscriber_count: subscribers, opens_unique: unique, privacy_opens_unique: privacy } = opens
  return {
    opens_unique: unique,
    opens_unique_rate: rate(unique, subscribers),
    opens_total: opens.opens_total,
    privacy_opens_unique: privacy,
    privacy_opens_unique_rate: rate(privacy, subscribers),
    privacy_opens_total: opens.privacy_opens_total,
    nonprivacy_opens_unique: unique - privacy,
    nonprivacy_opens_unique_rate: rate(unique - privacy, subscribers),
    nonprivacy_opens_total: opens.opens_total - opens.privacy_opens_total,
    subscriber_count: subscribers,
  }
}

/** Rounded to six decimals. */
const rate = (part: number, whole: number): number =>
  whole === 0 ? 0 : Math.round((part / whole) * 1e6) / 1e6
