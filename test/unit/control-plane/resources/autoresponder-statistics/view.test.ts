import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { computeStatistics } from '../../../../../control-plane/resources/autoresponder-statistics/view.ts'
import { DayCounts } from '../../../../../control-plane/resources/delivery-events/counts.ts'
import {
  applyEvent,
  earlier,
  noDailyCounts,
  unknownMessage,
} from '../../../../../control-plane/resources/delivery-events/message-state.ts'
import { localDay } from '../../../../../control-plane/resources/delivery-events/record.ts'
import type { RecordedEvent } from '../../../../../control-plane/resources/delivery-events/schemas.ts'
import {
  dailyCounters,
  deliveryMessageKey,
  type DeliveryMessageDocument,
} from '../../../../../shared/contract/schemas/delivery.ts'
import { madeEvents, type MadeEvent } from '../../../../campaigns/made-events.ts'
import { Random } from '../../../../campaigns/random.ts'
import { eventsThatMoved, recount } from '../../../../model/delivery-statistics.ts'

const cases = Number(process.env['ROLLCALL_CASES'] ?? 1_000)
const seed = Number(process.env['ROLLCALL_SEED'] ?? 1)
const zones = ['UTC', 'Europe/Berlin', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'Pacific/Apia']

/** The sums that calls with these events add to each day, as the store computes them. */
function sumsOf(calls: MadeEvent[][], moved: ReadonlySet<unknown>, zone: string): DayCounts[] {
  const stored = new Map<string, DeliveryMessageDocument>()
  const links = new Set<string>()
  return calls.map((events) => {
    const dayCounts = new DayCounts()
    const before = new Map(stored)
    for (const told of events) {
      const event = { ...told, occurred_at: new Date(told.occurred_at) } as unknown as RecordedEvent
      const day = localDay(event.occurred_at, zone)
      if (event.type === 'skipped') {
        dayCounts.count(told.autoresponder_id, day, `skips_${event.reason}`)
        continue
      }
      const key = deliveryMessageKey(told.autoresponder_id, told.subscriber_id, told.message_id)
      const message = { ...(stored.get(key) ?? unknownMessage(key)) }
      const isNewLink = told.url !== undefined && !links.has(`${key} ${told.url}`)
      links.add(`${key} ${told.url}`)
      applyEvent(message, event, { day, isNewLink, moves: moved.has(told) })
      stored.set(key, message)
    }
    for (const [key, after] of stored)
      if (before.get(key) !== after) dayCounts.replace(1, before.get(key) ?? unknownMessage(key), after)
    return dayCounts
  })
}

t.test(`${cases} streams of events come to what a plain recount of them comes to`, (t) => {
  const faults: unknown[] = []
  let events = 0
  for (let i = 0; i < cases; i += 1) {
    const random = new Random(seed * 1_000_003 + i)
    const zone = random.oneOf(zones)
    const subscriberIds = [1, 2, 3, 4]
    const stream = madeEvents(random, { autoresponderId: 1, subscriberIds, prefix: `${i}` })
    events += stream.length
    const moved = eventsThatMoved(
      stream,
      new Map(subscriberIds.map((id) => [id, random.oneOf(['active', 'scomp'])])),
    )
    const calls: MadeEvent[][] = [[]]
    for (const event of stream) {
      if (random.chance(0.2)) calls.push([])
      calls.at(-1)!.push(event)
    }
    const dayCounts = sumsOf(calls, moved, zone)
    const days = ['20260329', '20261025', '20260615', '20260404', '20270101', '20260301']
    for (const period of [
      {},
      { first: random.oneOf(days) },
      { first: random.oneOf(days), last: random.oneOf(days) },
    ]) {
      const { first = '00000000', last = '99999999' } = period
      const counts = noDailyCounts()
      const codes: Record<string, number> = {}
      const isAsked = (key: string) => first <= key.slice(2) && key.slice(2) <= last
      for (const { days: ofDays, codes: ofCodes } of dayCounts) {
        for (const [key, day] of ofDays)
          if (isAsked(key)) for (const name of dailyCounters) counts[name] += day[name]
        for (const [key, byCode] of ofCodes)
          if (isAsked(key)) for (const [code, n] of byCode) codes[code] = (codes[code] ?? 0) + n
      }
      const expected = recount(stream, moved, { zone, ...period })
      const found = computeStatistics(counts, codes)
      if (!isDeepStrictEqual(found, expected)) faults.push({ case: i, seed, period, found, expected })
      if (faults.length > 2) break
    }
  }
  t.same(faults, [])
  t.ok(events > cases * 10, `${events} events`)
  t.end()
})

t.test('of a message the first failure and the earliest open and click are kept', (t) => {
  const message = unknownMessage('1')
  const note = (event: { type: RecordedEvent['type']; too_long?: boolean }, occurredAt: string) => {
    applyEvent(message, { ...event, occurred_at: new Date(occurredAt) } as unknown as RecordedEvent, {
      ...{ day: 20_260_101, isNewLink: false, moves: false },
    })
  }
  note({ type: 'failed' }, '2026-01-01T00:00:00Z')
  note({ type: 'failed', too_long: true }, '2026-01-01T00:00:00Z')
  for (const second of ['05', '04', '06']) {
    note({ type: 'opened' }, `2026-01-01T00:00:${second}Z`)
    note({ type: 'clicked' }, `2026-01-01T00:01:${second}Z`)
  }
  t.match(message, { failed: 'failed', opens: 3, clicks: 3 })
  t.equal(message.opened_at?.toISOString(), '2026-01-01T00:00:04.000Z')
  t.equal(message.clicked_at?.toISOString(), '2026-01-01T00:01:04.000Z')
  t.same(earlier(undefined, new Date(5)), new Date(5))
  t.end()
})
