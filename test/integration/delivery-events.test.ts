import { isDeepStrictEqual } from 'node:util'
import { UUID } from 'mongodb'
import t from 'tap'
import { unsubscribeToken } from '../../control-plane/api/signed-token.ts'
import { filterByTargets } from '../../control-plane/resources/delivery-events/event-autoresponders.ts'
import { keyHashSecret } from '../../shared/store/api-keys.ts'
import type { AutoresponderDocument } from '../../shared/contract/schemas/autoresponder.ts'
import { madeEvents, type MadeEvent } from '../campaigns/made-events.ts'
import { Random } from '../campaigns/random.ts'
import { autoresponder } from '../helpers/autoresponder.ts'
import { storedReaction } from '../helpers/stored-reaction.ts'
import { crashAt } from '../helpers/crash-at.ts'
import { callerOf, createList, startService, until, type Json } from '../helpers/service.ts'
import { eventsThatMoved, recount, type ModelEvent } from '../model/delivery-statistics.ts'

/** A long run by hand: ROLLCALL_CASES=1000 */
const cases = Number(process.env['ROLLCALL_CASES'] ?? 40)
const seed = Number(process.env['ROLLCALL_SEED'] ?? 1)

const service = await startService(t, ['control-plane'])
const { collections } = service
let lastId = 0

interface Mailing {
  list: Json
  autoresponderId: number
}

async function addAutoresponder(
  list: Json,
  fields: Partial<AutoresponderDocument> = {},
): Promise<AutoresponderDocument> {
  lastId += 1
  const document = autoresponder({
    _id: lastId,
    name: `Autoresponder ${lastId}`,
    mailing_list_id: list.id,
    organization_id: list.organization_id,
    trigger: 'api',
    ...fields,
  })
  await collections.autoresponders.insertOne(document)
  return document
}

const addSubscribers = (list: Json, amount: number): Promise<Json[]> =>
  Promise.all(
    Array.from({ length: amount }, (_, i) =>
      service.post(`/mailing_lists/${list.id}/subscribers`, {
        subscriber: { email: `s${i}@example.com`, status: i % 7 === 3 ? 'deactivated' : 'active' },
      }),
    ),
  )

const tell = (events: unknown[]): Promise<Json> =>
  service.post('/delivery_events', { delivery_events: events })

const statistics = ({ list, autoresponderId }: Mailing, query = ''): Promise<Json> =>
  service.get(`/mailing_lists/${list.id}/autoresponders/${autoresponderId}/statistics${query}`)

/** A list with an autoresponder and one active subscriber, and what makes events of its mails. */
async function oneSubscriber() {
  const list = await createList(service)
  const { _id: autoresponderId } = await addAutoresponder(list)
  const [subscriber] = await addSubscribers(list, 1)
  let events = 0
  const event = (type: string, more: object = {}): MadeEvent => {
    events += 1
    return {
      id: `${autoresponderId}-${events}`,
      type,
      occurred_at: '2026-06-15T12:00:00Z',
      message_id: 'm1',
      autoresponder_id: autoresponderId,
      subscriber_id: subscriber.id,
      ...more,
    }
  }
  const sent = (more: object = {}) => event('sent', { format: 'html', ...more })
  const statusOf = async (): Promise<string> =>
    (await service.get(`/mailing_lists/${list.id}/subscribers/${subscriber.id}`))[0].status
  return { list, autoresponderId, subscriber, event, sent, statusOf }
}

async function everythingTold(): Promise<unknown> {
  const names = [
    'delivery_events',
    'delivery_messages',
    'clicked_links',
    'autoresponder_days',
    'bounce_codes',
  ]
  const all = await Promise.all(
    [...names, 'subscribers', 'subscriber_counts', 'reactions'].map((name) =>
      service.db.collection(name).find().sort({ _id: 1 }).toArray(),
    ),
  )
  return JSON.stringify(all)
}

interface ToldMailing extends Mailing {
  zone: string
  subscribers: Json[]
}

/** Four lists, each in a time zone of its own, with 28 subscribers. */
function createZonedLists(): Promise<Omit<ToldMailing, 'autoresponderId'>[]> {
  const zones = ['UTC', 'Europe/Berlin', 'Australia/Lord_Howe', 'Asia/Kathmandu']
  return Promise.all(
    zones.map(async (zone) => {
      const organization = await service.post('/organizations', {
        organization: { name: zone, time_zone_name: zone },
      })
      const list = await createList(service, [], { organization_id: organization.id })
      return { list, zone, subscribers: await addSubscribers(list, 28) }
    }),
  )
}

/** Deletes two subscribers of each list. Resolves to the statuses of all others, by id. */
async function deleteTwoOfEach(lists: Pick<ToldMailing, 'list' | 'subscribers'>[]) {
  const statuses = new Map<number, string>(
    lists.flatMap(({ subscribers }) => subscribers.map(({ id, status }) => [id, status] as const)),
  )
  for (const { list, subscribers } of lists)
    for (const { id } of subscribers.slice(0, 2)) {
      await service.call('DELETE', `/mailing_lists/${list.id}/subscribers/${id}`)
      statuses.delete(id)
    }
  return statuses
}

/** The calls of four lanes: lanes tell of the same autoresponders, but no two of the same subscriber. */
function makeLanes(random: Random, mailings: ToldMailing[]): MadeEvent[][][] {
  return Array.from({ length: 4 }, (_, lane) => {
    const streams = mailings.map(({ autoresponderId, subscribers }) =>
      madeEvents(random, {
        autoresponderId,
        subscriberIds: subscribers.filter((_, i) => i % 4 === lane).map(({ id }) => id),
        prefix: `${lane}-${autoresponderId}`,
      }),
    )
    const events = random.chance(0.5) ? random.shuffled(streams.flat()) : streams.flat()
    const calls: MadeEvent[][] = []
    while (events.length > 0) calls.push(events.splice(0, random.between(1, random.oneOf([20, 1_000]))))
    return calls
  })
}

/** Sends events, and adds up what the replies count. */
class EventSender {
  readonly totals = { accepted: 0, duplicates: 0, ignored: 0 }
  sent = 0

  async send(events: MadeEvent[]): Promise<void> {
    this.sent += events.length
    const reply: EventSender['totals'] = await tell(events)
    this.totals.accepted += reply.accepted
    this.totals.duplicates += reply.duplicates
    this.totals.ignored += reply.ignored
  }

  /** Sends the calls of a lane one after the other; events and calls may come twice, at the same moment or later. */
  async sendLane(random: Random, calls: MadeEvent[][]): Promise<void> {
    for (const [i, call] of calls.entries()) {
      const isRepeated = random.chance(0.3) && call.length < 1_000
      const withRepetition = isRepeated ? [...call, ...call.slice(0, 1)] : call
      await Promise.all([this.send(withRepetition), ...(random.chance(0.2) ? [this.send(call)] : [])])
      const earlier = random.chance(0.1) ? calls[random.between(0, i)] : undefined
      if (earlier !== undefined) await this.send(earlier)
    }
  }
}

/** Compares the statistics with a recount of the events, and returns up to two differences. */
async function findWrongStatistics(
  random: Random,
  mailings: ToldMailing[],
  told: MadeEvent[],
  moved: Set<ModelEvent>,
): Promise<unknown[]> {
  const faults: unknown[] = []
  for (const mailing of mailings) {
    const events = told.filter((event) => event.autoresponder_id === mailing.autoresponderId)
    const last = random.oneOf(['20260329', '20261024', '20261231'])
    for (const period of [{}, { first: '20260329', last }]) {
      const query = 'first' in period ? `?start_date=${period.first}&end_date=${period.last}` : ''
      const found = await statistics(mailing, query)
      const expected = recount(events, moved, { zone: mailing.zone, ...period })
      if (!isDeepStrictEqual(found, expected)) faults.push({ seed, period, mailing, found, expected })
      if (faults.length > 1) return faults
    }
  }
  return faults
}

t.test(`random events of ${cases} autoresponders, in four lanes`, { timeout: 600_000 }, async (t) => {
  const random = new Random(seed)
  const lists = await createZonedLists()
  const mailings: ToldMailing[] = []
  for (let i = 0; i < cases; i += 1) {
    const zoned = lists[i % lists.length]!
    mailings.push({ ...zoned, autoresponderId: (await addAutoresponder(zoned.list))._id })
  }
  // Events of a deleted subscriber count.
  const statuses = await deleteTwoOfEach(lists)
  const lanes = makeLanes(random, mailings)
  const sender = new EventSender()
  await Promise.all(lanes.map((calls, lane) => sender.sendLane(new Random(seed * 100 + lane), calls)))
  const told = lanes.flat(2)
  const moved = eventsThatMoved(told, statuses)

  await t.test('each event is accepted once, and its repetitions are duplicates', async (t) => {
    const duplicates = sender.sent - told.length
    t.same(sender.totals, { accepted: told.length, duplicates, ignored: 0 })
  })

  await t.test('the statistics are those of a recount of all events', async (t) => {
    const faults = await findWrongStatistics(random, mailings, told, moved)
    t.same(faults, [], `${told.length} events in ${lanes.flat().length} calls`)
  })

  await t.test('subscribers whose status the events changed are counted by their new status', async (t) => {
    for (const { list, subscribers } of lists) {
      const { mailing_lists: rows } = await service.get(
        `/organizations/${list.organization_id}/subscriber_counts`,
      )
      const counts: Record<string, number> = {
        active: 0,
        bounced: 0,
        unsubscribed: 0,
        scomp: 0,
        deactivated: 0,
      }
      for (const { id } of subscribers) {
        const status = statuses.get(id)
        if (status !== undefined) counts[status] = (counts[status] ?? 0) + 1
      }
      t.same(rows[0].counts, counts)
    }
  })

  await t.test('the same calls again change nothing', async (t) => {
    const before = await everythingTold()
    const again = new EventSender()
    const calls = lanes[0]?.slice(0, 20) ?? []
    for (const call of calls) await again.send(call)
    t.same(again.totals, { accepted: 0, duplicates: calls.flat().length, ignored: 0 })
    t.equal(await everythingTold(), before)
  })
})

t.test('events of an unknown subscriber are ignored, and those of a deleted one count', async (t) => {
  const { list, autoresponderId, subscriber, sent, event } = await oneSubscriber()
  const other = await oneSubscriber()
  const organization = await service.post('/organizations', { organization: { name: 'Strangers' } })
  const { key } = await service.post(`/organizations/${organization.id}/api_keys`, {
    api_key: { name: 'admin', role: 'organization_admin' },
  })
  await service.call('DELETE', `/mailing_lists/${list.id}/subscribers/${subscriber.id}`)
  t.same(
    await tell([
      sent(),
      event('opened', { privacy: false, autoresponder_id: 999_999 }),
      event('opened', { privacy: false, subscriber_id: 999_999 }),
      event('opened', { privacy: false, subscriber_id: other.subscriber.id }),
      event('delivered', { autoresponder_id: null, subscriber_id: null }),
    ]),
    { accepted: 2, duplicates: 0, ignored: 3 },
  )
  t.match(await statistics({ list, autoresponderId }), { messages_sent: 1, opens_total: 0 })
  const { body } = await service.call(
    'POST',
    '/delivery_events',
    { delivery_events: [other.sent()] },
    { key },
  )
  t.same(body.data, { accepted: 0, duplicates: 0, ignored: 1 }, 'of another organization')
  t.match(await statistics(other), { messages_sent: 0 })
})

t.test('a subscriber who leaves does so at once, with all waiting mails', async (t) => {
  const { list, autoresponderId, subscriber, sent, event, statusOf } = await oneSubscriber()
  const { _id: answering } = await addAutoresponder(list, {
    trigger: 'autoresponder_open',
    trigger_autoresponder_to_open_id: autoresponderId,
    delay: 'with_delay',
    delay_amount: 1_000,
    delay_unit: 'weeks',
  })
  const reactions = () => collections.reactions.find({ autoresponder_id: answering }).toArray()
  await tell([event('opened', { privacy: true }), event('opened', { privacy: false })])
  t.match(await reactions(), [{ state: 'queued', subscriber_id: subscriber.id }], 'queued once a message')
  const bounce = { bounce_type: 'hard', bounce_location: 'remote', bounce_code: 'a.$b' }
  await tell([event('bounced', { ...bounce, bounce_type: 'soft' })])
  t.equal(await statusOf(), 'active')
  await tell([
    event('bounced', bounce),
    event('complained'),
    event('opened', { privacy: false, message_id: 'm2' }),
  ])
  t.equal(await statusOf(), 'bounced')
  t.match(await reactions(), [{ state: 'dropped' }], 'and no subscriber who left is answered')
  t.match(await statistics({ list, autoresponderId }), { bounces_total: 0, scomps_total: 0 })
  await tell([sent()])
  t.match(await statistics({ list, autoresponderId }), {
    bounces_total: 2,
    bounces_unique_soft: 1,
    bounces_status_updated: 1,
    bounces_unique_by_code: { 'a.$b': 1 },
    scomps_total: 1,
    scomps_status_updated: 0,
    opens_total: 2,
  })
})

t.test('opens, clicks and sends are answered, and their absence is', async (t) => {
  const { list, autoresponderId, sent, event } = await oneSubscriber()
  const click = (more: object) => ({ trigger_autoresponder_to_click_id: autoresponderId, ...more })
  const open = { trigger_autoresponder_to_open_id: autoresponderId }
  const later = { delay: 'with_delay', delay_amount: 2, delay_unit: 'hours' } as const
  const any = { trigger_autoresponder_to_click_on_any_url: true }
  const listed = { trigger_autoresponder_to_click_urls: ['https://a.example/B'] }
  const names = {
    send: { trigger: 'autoresponder_send', trigger_autoresponder_to_send_id: autoresponderId },
    open: { trigger: 'autoresponder_open', ...open },
    nonopen: { trigger: 'autoresponder_nonopen', ...open, ...later },
    click: { trigger: 'autoresponder_click', ...click(any) },
    clickListed: { trigger: 'autoresponder_click', ...click(listed) },
    nonclick: { trigger: 'autoresponder_nonclick', ...click(any), ...later },
    nonclickListed: { trigger: 'autoresponder_nonclick', ...click(listed), ...later },
    // What it stores for triggers other than its own has no effect.
    other: { trigger: 'api', ...open },
  } as const
  const ids = new Map<number, string>()
  for (const [name, fields] of Object.entries(names))
    ids.set((await addAutoresponder(list, fields))._id, name)
  const statesOf = async (messageId: string): Promise<Record<string, string>> => {
    const found = await collections.reactions
      .find({ _id: { $regex: `:message ${messageId}$` }, autoresponder_id: { $in: [...ids.keys()] } })
      .sort({ autoresponder_id: 1 })
      .toArray()
    return Object.fromEntries(found.map((reaction) => [ids.get(reaction.autoresponder_id)!, reaction.state]))
  }
  const at = (time: string) => ({ occurred_at: `2026-06-15T${time}Z` })
  const opened = (message_id: string, time: string) =>
    event('opened', { privacy: false, message_id, ...at(time) })
  const clicked = (message_id: string, url: string, time: string) =>
    event('clicked', { url, message_id, ...at(time) })

  const waiting = { nonopen: 'queued', nonclick: 'queued', nonclickListed: 'queued' }
  await tell([sent({ message_id: 'a' })])
  t.same(await statesOf('a'), { send: 'queued', ...waiting })
  const [reaction] = await collections.reactions
    .find({ _id: { $regex: ':message a$' }, state: 'queued' })
    .toArray()
  t.match(reaction, { mailing_list_id: list.id, import_id: null, due_at: new Date('2026-06-15T12:00:00Z') })
  await tell([opened('a', '13:00:00'), clicked('a', 'https://a.example/b', '13:59:59')])
  t.same(await statesOf('a'), {
    ...{ send: 'queued', open: 'queued', nonopen: 'dropped' },
    ...{ click: 'queued', nonclick: 'dropped', nonclickListed: 'queued' },
  })
  await tell([clicked('a', 'https://a.example/B', '14:00:01')])
  t.match(await statesOf('a'), { clickListed: 'queued', nonclickListed: 'queued' }, 'that one came too late')

  await tell([opened('b', '12:10:00'), clicked('b', 'https://a.example/B', '12:20:00')])
  await tell([sent({ message_id: 'b' })])
  t.same(
    await statesOf('b'),
    { send: 'queued', open: 'queued', click: 'queued', clickListed: 'queued' },
    'no mail waits for what came before the mail was known to be sent',
  )
  await tell([sent({ message_id: 'c' }), opened('c', '12:10:00'), sent({ message_id: 'c' })])
  t.same(await statesOf('c'), {
    send: 'queued',
    open: 'queued',
    nonclick: 'queued',
    nonclickListed: 'queued',
  })
  t.equal(await collections.reactions.countDocuments({ autoresponder_id: { $gt: lastId - 1 } }), 0)

  await tell([sent({ message_id: 'd' })])
  await tell([opened('d', '13:00:00')])
  t.match(await statesOf('d'), { nonopen: 'dropped' }, 'one that came in time and is told late')
})

t.test('the earliest open or click counts, in whatever order and calls they are told', async (t) => {
  const { list, autoresponderId, sent, event } = await oneSubscriber()
  const later = { delay: 'with_delay', delay_amount: 2, delay_unit: 'hours' } as const
  const click = {
    trigger: 'autoresponder_nonclick',
    trigger_autoresponder_to_click_id: autoresponderId,
  } as const
  const url = 'https://a.example/'
  const kinds = {
    nonopen: {
      ...{ trigger: 'autoresponder_nonopen' as const, trigger_autoresponder_to_open_id: autoresponderId },
    },
    nonclick: { ...click, trigger_autoresponder_to_click_on_any_url: true },
    nonclickListed: { ...click, trigger_autoresponder_to_click_urls: [url] },
  }
  for (const fields of Object.values(kinds)) await addAutoresponder(list, { ...fields, ...later })
  /** What becomes of the three mails to those who did nothing until 14:00. The mail was sent at 12:00. */
  const statesAfter = async (message_id: string, calls: string[][]) => {
    for (const times of calls)
      await tell(
        times.flatMap((time) => {
          const more = { message_id, occurred_at: `2026-06-15T${time}Z` }
          if (time === '12:00:00') return [sent(more)]
          return [event('opened', { privacy: false, ...more }), event('clicked', { url, ...more })]
        }),
      )
    const found = await collections.reactions
      .find({ _id: { $regex: `:message ${message_id}$` } })
      .sort({ autoresponder_id: 1 })
      .toArray()
    return found.map(({ state }) => state)
  }
  const [before, after, sentAt] = ['13:00:00', '15:00:00', '12:00:00']
  const all = (state: string) => [state, state, state]
  t.same(await statesAfter('m-late', [[after], [sentAt]]), all('queued'), 'after the due time')
  t.same(await statesAfter('m-both', [[after], [before], [sentAt]]), [], 'the earlier one is told last')
  t.same(await statesAfter('m-sorted', [[before], [after], [sentAt]]), [], 'and first')
  t.same(await statesAfter('m-one', [[after, before, after], [sentAt]]), [], 'and in one call')
  t.same(await statesAfter('m-all', [[after, before, sentAt]]), [], 'with the sending')
  t.same(await statesAfter('m-first', [[sentAt, after]]), all('queued'), 'too late, with the sending')
  t.same(await statesAfter('m-then', [[sentAt, after], [before]]), all('dropped'), 'then the earlier one')
  t.same(await statesAfter('m-same', [[sentAt, after, before]]), [], 'both with the sending')
})

t.test('the day of the first sending that is told counts, not that of the report', async (t) => {
  const { list, autoresponderId, sent, event } = await oneSubscriber()
  const on = (day: number) => ({ occurred_at: `2026-06-${day}T12:00:00Z` })
  const sums = async (day: number) => {
    const query = `?start_date=202606${day}&end_date=202606${day}`
    const { messages_sent, opens_total } = await statistics({ list, autoresponderId }, query)
    return [messages_sent, opens_total]
  }
  await tell([event('opened', { privacy: false, ...on(17) }), sent(on(15))])
  await tell([sent({ ...on(14) }), event('opened', { privacy: false, ...on(13) })])
  t.same(await Promise.all([13, 14, 15, 17].map(sums)), [
    [0, 0],
    [0, 0],
    [1, 2],
    [0, 0],
  ])
})

t.test('an event from a clock that is ahead counts as of its report', async (t) => {
  const { list, autoresponderId, sent } = await oneSubscriber()
  await addAutoresponder(list, {
    trigger: 'autoresponder_send',
    trigger_autoresponder_to_send_id: autoresponderId,
  })
  const reportedAt = Date.now()
  await tell([sent({ occurred_at: new Date(reportedAt + 3_600_000).toISOString() })])
  const reaction = await collections.reactions.findOne({ mailing_list_id: list.id })
  t.ok(Math.abs(reaction!.due_at.getTime() - reportedAt) < 60_000, reaction!.due_at.toISOString())
})

t.test('nothing is left of a subscriber who is deleted or leaves while an opening is stored', async (t) => {
  const list = await createList(service)
  const { _id: opened } = await addAutoresponder(list)
  await addAutoresponder(list, {
    trigger: 'autoresponder_open',
    trigger_autoresponder_to_open_id: opened,
  })
  const subscribers = (await addSubscribers(list, 20)).filter(({ status }) => status === 'active')
  await Promise.all(
    subscribers.map(async ({ id }, i) => {
      const event = {
        id: `race-${id}`,
        type: 'opened',
        privacy: false,
        occurred_at: '2026-06-15T12:00:00Z',
        message_id: `race-${id}`,
        autoresponder_id: opened,
        subscriber_id: id,
      }
      const path = `/mailing_lists/${list.id}/subscribers/${id}`
      await Promise.all([
        tell([event]),
        i % 2 === 0
          ? service.call('DELETE', path)
          : service.call('PUT', path, { subscriber: { status: 'unsubscribed' } }),
      ])
    }),
  )
  const left = await collections.reactions.find({ mailing_list_id: list.id, state: 'queued' }).toArray()
  t.same(left, [])
})

t.test('triggered autoresponders are found without reading all autoresponders', async (t) => {
  const plan = JSON.stringify(
    await collections.autoresponders.find(filterByTargets([1, 2, 3])).explain('queryPlanner'),
  )
  t.match(plan, /IXSCAN/)
  t.notMatch(plan, /COLLSCAN/)
})

t.test('an unsubscribe token counts as an event of its message, once', async (t) => {
  const { list, autoresponderId, subscriber, statusOf } = await oneSubscriber()
  const { _id: answered } = await addAutoresponder(list)
  await collections.reactions.insertOne(
    storedReaction({
      id: 77_001,
      mailing_list_id: list.id,
      autoresponder_id: autoresponderId,
      subscriber_id: subscriber.id,
      state: 'sent',
    }),
  )
  const about = { message_id: '77001', autoresponder_id: autoresponderId, subscriber_id: subscriber.id }
  const at = { occurred_at: '2026-06-15T12:00:00Z' }
  await tell([{ id: 'token-sent', type: 'sent', ...at, ...about, format: 'text' }])
  const secret = await keyHashSecret(collections)
  const token = unsubscribeToken(secret, {
    listId: list.id,
    subscriberId: subscriber.id,
    messageId: '77001',
  })
  for (let i = 0; i < 2; i += 1) await service.post('/subscribers/unsubscribe', { unsubscribe: { token } })
  t.equal(await statusOf(), 'unsubscribed')
  t.match(await statistics({ list, autoresponderId }), {
    unsubs_total: 1,
    unsubs_unique: 1,
    unsubs_status_updated: 1,
  })
  await tell([{ id: 'token-told', type: 'unsubscribed', ...at, ...about }])
  t.match(await statistics({ list, autoresponderId }), {
    unsubs_total: 2,
    unsubs_unique: 1,
    unsubs_status_updated: 1,
  })
  t.match(await statistics({ list, autoresponderId: answered }), { unsubs_total: 0 })
})

t.test('statistics are limited to days of sending, both included', async (t) => {
  const { list, autoresponderId, sent, event } = await oneSubscriber()
  await service.call('PUT', `/organizations/${list.organization_id}`, {
    organization: { time_zone_name: 'America/New_York' },
  })
  await tell([
    sent({ occurred_at: '2026-06-15T03:59:59Z' }),
    event('opened', { privacy: false, occurred_at: '2026-07-01T00:00:00Z' }),
    // Local time: the organization's.
    sent({ message_id: 'm2', occurred_at: '2026-06-15T23:59:59' }),
    event('skipped', { message_id: 'm3', occurred_at: '2026-06-16T00:00:00', reason: 'error' }),
  ])
  const shownCounts = async (query: string) => {
    const { messages_sent, opens_total, skips_error } = await statistics({ list, autoresponderId }, query)
    return [messages_sent, opens_total, skips_error]
  }
  t.same(await shownCounts(''), [2, 1, 1])
  t.same(await shownCounts('?start_date=&end_date='), [2, 1, 1])
  t.same(await shownCounts('?end_date=20260614'), [1, 1, 0], 'an open counts on the day of its mail')
  t.same(await shownCounts('?start_date=20260615&end_date=20260615'), [1, 0, 0])
  t.same(await shownCounts('?start_date=20260616'), [0, 0, 1])
  t.same(await shownCounts('?start_date=20260616&end_date=20260614'), [0, 0, 0])
  for (const date of [
    ...['2026-06-15', '20260631', '20261301', '2026061', '202606150', 'today', '00000000', '-2026061'],
  ])
    for (const name of ['start_date', 'end_date']) {
      const path = `/mailing_lists/${list.id}/autoresponders/${autoresponderId}/statistics?${name}=${date}`
      const { body } = await service.call('GET', path)
      t.match(body, {
        success: false,
        error_code: 'invalid_request',
        error_message: new RegExp(`^${name} must`),
      })
    }
})

t.test('a control plane that is killed in a call leaves all of it or nothing', async (t) => {
  const whole = service.processes['control-plane']!
  for (const [point, isThere] of [
    ['update autoresponder_days after 1', false],
    ['commitTransaction after 1', true],
  ] as const) {
    const { list, autoresponderId, subscriber, sent, event, statusOf } = await oneSubscriber()
    const events = [sent(), event('opened', { privacy: false }), event('complained')]
    const doomed = await service.start('control-plane', crashAt(point))
    service.processes['control-plane'] = whole
    await t.rejects(
      callerOf(() => doomed.ready.http!)('POST', '/delivery_events', { delivery_events: events }),
      point,
    )
    await until(
      'the end of the process',
      () => Promise.resolve(doomed.child.signalCode),
      (signal) => signal !== null,
    )
    const session = /in session ([\da-f]{32})/.exec(doomed.log())![1]!
    await service.client.db('admin').command({ killSessions: [{ id: new UUID(session) }] })
    const stored = await collections.deliveryEvents.countDocuments({ subscriber_id: subscriber.id })
    t.equal(stored, isThere ? 3 : 0, point)
    t.match(await statistics({ list, autoresponderId }), {
      messages_sent: isThere ? 1 : 0,
      scomps_total: stored / 3,
    })
    t.equal(await statusOf(), isThere ? 'scomp' : 'active')
    t.same(await tell(events), { accepted: 3 - stored, duplicates: stored, ignored: 0 })
    t.match(await statistics({ list, autoresponderId }), {
      messages_sent: 1,
      opens_total: 1,
      scomps_total: 1,
    })
  }
})
