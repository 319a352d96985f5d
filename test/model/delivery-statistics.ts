/**
 * An autoresponder's statistics, recounted from its events one question at a time. It is slow and plain, and shares
 * no line with the service. Events are in order of arrival, without repeated ones.
 */
export interface ModelEvent {
  type: string
  occurred_at: string
  message_id: string
  autoresponder_id: number
  subscriber_id: number
  format?: string
  too_long?: boolean
  bounce_type?: string
  bounce_location?: string
  bounce_code?: string
  privacy?: boolean
  url?: string
  reason?: string
}

interface ModelPeriod {
  zone: string
  /** YYYYMMDD; both ends count. */
  first?: string
  last?: string
}

/** The events that made an active subscriber leave. `statuses` is what they were, and what they become. */
export function eventsThatMoved(
  events: readonly ModelEvent[],
  statuses: Map<number, string>,
): Set<ModelEvent> {
  const moved = new Set<ModelEvent>()
  for (const event of events) {
    const becomes =
      event.type === 'unsubscribed'
        ? 'unsubscribed'
        : event.type === 'complained'
          ? 'scomp'
          : event.type === 'bounced' && event.bounce_type === 'hard'
            ? 'bounced'
            : undefined
    if (becomes === undefined || statuses.get(event.subscriber_id) !== 'active') continue
    statuses.set(event.subscriber_id, becomes)
    moved.add(event)
  }
  return moved
}

export function recount(
  all: readonly ModelEvent[],
  moved: ReadonlySet<ModelEvent>,
  { zone, first = '00000000', last = '99999999' }: ModelPeriod,
) {
  const formatter = new Intl.DateTimeFormat('en-CA', { timeZone: zone })
  const isAsked = (event: ModelEvent) => {
    const day = formatter.format(new Date(event.occurred_at)).replaceAll('-', '')
    return first <= day && day <= last
  }
  const messageOf = (event: ModelEvent) => JSON.stringify([event.subscriber_id, event.message_id])
  /** The first of each message that `is` finds. */
  const firsts = (events: readonly ModelEvent[], of = messageOf) => [
    ...new Map([...events].reverse().map((event) => [of(event), event])).values(),
  ]
  const sent = firsts(all.filter(({ type }) => type === 'sent')).filter(isAsked)
  const messages = new Set(sent.map(messageOf))
  const events = all.filter((event) => event.type !== 'skipped' && messages.has(messageOf(event)))
  const of = (type: string) => events.filter((event) => event.type === type)
  const number = (some: readonly ModelEvent[], is: Partial<ModelEvent>) =>
    some.filter((event) =>
      Object.entries(is).every(([key, value]) => event[key as keyof ModelEvent] === value),
    ).length
  const rate = (part: number, whole: number) => (whole === 0 ? 0 : Number((part / whole).toFixed(6)))
  const skipped = all.filter((event) => event.type === 'skipped').filter(isAsked)

  const bounces = firsts(of('bounced'))
  const failures = firsts(of('failed'))
  const [opens, clicks, unsubs, scomps] = ['opened', 'clicked', 'unsubscribed', 'complained'].map((type) => ({
    total: of(type).length,
    unique: firsts(of(type)).length,
    moved: of(type).filter((event) => moved.has(event)).length,
  })) as [Kind, Kind, Kind, Kind]
  const links = firsts(of('clicked'), (event) => JSON.stringify([messageOf(event), event.url]))
  const messages_sent = sent.length
  const delivered = firsts(of('delivered')).length
  const bounced = new Set(bounces.map(messageOf))
  // "Those of them that have not bounced"; "messages that are neither delivered nor failed nor bounced".
  const accepted = firsts(of('delivered')).filter((event) => !bounced.has(messageOf(event))).length
  const isOver = new Set([...of('delivered'), ...of('failed'), ...of('bounced')].map(messageOf))
  const in_queue = sent.filter((event) => !isOver.has(messageOf(event))).length
  const text = number(sent, { format: 'text' })
  const codes = [...new Set(bounces.map(({ bounce_code: code }) => code!))]

  const isPrivate = new Set(
    of('opened')
      .filter(({ privacy }) => privacy)
      .map(messageOf),
  )
  const opensBy = (is: (message: string) => boolean) => {
    const subscriber_count = sent.filter((event) => is(messageOf(event))).length
    const some = of('opened').filter((event) => is(messageOf(event)))
    const privacy = some.filter((event) => event.privacy)
    const unique = firsts(some).length
    const privacyUnique = firsts(privacy).length
    return {
      opens_unique: unique,
      opens_unique_rate: rate(unique, subscriber_count),
      opens_total: some.length,
      privacy_opens_unique: privacyUnique,
      privacy_opens_unique_rate: rate(privacyUnique, subscriber_count),
      privacy_opens_total: privacy.length,
      nonprivacy_opens_unique: unique - privacyUnique,
      nonprivacy_opens_unique_rate: rate(unique - privacyUnique, subscriber_count),
      nonprivacy_opens_total: some.length - privacy.length,
      subscriber_count,
    }
  }

  return {
    sent_text: text,
    sent_html: number(sent, { format: 'html' }),
    sent_multipart: number(sent, { format: 'multipart' }),
    messages_sent,
    messages_html: messages_sent - text,
    messages_text: text,
    bounces_total: of('bounced').length,
    bounces_unique: bounces.length,
    bounces_unique_hard: number(bounces, { bounce_type: 'hard' }),
    bounces_unique_soft: number(bounces, { bounce_type: 'soft' }),
    bounces_unique_other: number(bounces, { bounce_type: 'other' }),
    bounces_unique_local: number(bounces, { bounce_location: 'local' }),
    bounces_unique_remote: number(bounces, { bounce_location: 'remote' }),
    bounces_status_updated: of('bounced').filter((event) => moved.has(event)).length,
    bounces_unique_by_code: Object.fromEntries(
      codes.map((code) => [code, number(bounces, { bounce_code: code })]),
    ),
    bounced: bounces.length,
    duplicate_bounces: of('bounced').length - bounces.length,
    unbounced: messages_sent - bounces.length,
    bounce_rate: rate(bounces.length, messages_sent),
    bounce_rate_hard: rate(number(bounces, { bounce_type: 'hard' }), bounces.length),
    bounce_rate_soft: rate(number(bounces, { bounce_type: 'soft' }), bounces.length),
    bounce_rate_other: rate(number(bounces, { bounce_type: 'other' }), bounces.length),
    bounce_local_rate: rate(number(bounces, { bounce_location: 'local' }), bounces.length),
    clicks_total: clicks.total,
    clicks_unique: clicks.unique,
    clicks_unique_by_link: links.length,
    duplicate_clicks: clicks.total - clicks.unique,
    click_rate: rate(clicks.unique, accepted),
    click_to_open_rate: rate(clicks.unique, opens.unique),
    unclicked: Math.max(0, accepted - clicks.unique),
    opens_total: opens.total,
    opens_unique: opens.unique,
    open_rate: rate(opens.unique, accepted),
    open_ratio: rate(opens.total, opens.unique),
    unopened: Math.max(0, accepted - opens.unique),
    duplicate_opens: opens.total - opens.unique,
    scomps_total: scomps.total,
    scomps_unique: scomps.unique,
    scomps_status_updated: scomps.moved,
    duplicate_scomps: scomps.total - scomps.unique,
    scomp_rate: rate(scomps.unique, accepted),
    unsubs_total: unsubs.total,
    unsubs_unique: unsubs.unique,
    unsubs_status_updated: unsubs.moved,
    duplicate_unsubs: unsubs.total - unsubs.unique,
    unsub_rate: rate(unsubs.unique, accepted),
    skips_error: number(skipped, { reason: 'error' }),
    skips_request: number(skipped, { reason: 'request' }),
    total_messages: messages_sent,
    total_success: delivered,
    total_failure: failures.length,
    total_failure_toolong: number(failures, { too_long: true }),
    accepted,
    accepted_rate: rate(accepted, messages_sent),
    in_queue,
    in_queue_rate: rate(in_queue, messages_sent),
    max_unique_activities: Math.max(opens.unique, clicks.unique, unsubs.unique, scomps.unique),
    privacy_protection: {
      all_subscribers: opensBy(() => true),
      privacy_subscribers: opensBy((message) => isPrivate.has(message)),
      nonprivacy_subscribers: opensBy((message) => !isPrivate.has(message)),
    },
  }
}

interface Kind {
  total: number
  unique: number
  moved: number
}
