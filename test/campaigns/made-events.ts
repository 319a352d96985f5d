import type { ModelEvent } from '../model/delivery-statistics.ts'
import type { Random } from './random.ts'

export type MadeEvent = ModelEvent & { id: string }
type NewEvent = Partial<ModelEvent> & Pick<ModelEvent, 'type'>

/** Days around which something happens to the clocks, and plain ones. */
const moments = [
  ...['2026-03-28T22:30:00Z', '2026-03-29T00:30:00Z', '2026-10-24T21:30:00Z'],
  ...['2026-10-25T00:30:00Z', '2026-04-04T15:00:00Z', '2026-10-03T15:20:00Z'],
  ...['2026-02-28T23:59:59Z', '2026-12-31T23:30:00Z', '2026-06-15T12:00:00Z'],
]

const urls = ['https://a.example/1', 'https://a.example/2', 'https://a.example/?q=%F0&b=$.c']
const codes = ['5.1.1', '$inc', '__proto__x', 'a.b.c', '550 "no" — such user', '']

/**
 * The events of some messages to these subscribers, from a careless sender: in any order, with gaps, and with
 * subscribers who leave twice. An event that the test sends again is listed once.
 */
export function madeEvents(
  random: Random,
  {
    autoresponderId,
    subscriberIds,
    prefix,
  }: { autoresponderId: number; subscriberIds: number[]; prefix: string },
): MadeEvent[] {
  const events: MadeEvent[] = []
  const add = (
    message: Pick<ModelEvent, 'message_id' | 'subscriber_id'>,
    rest: Partial<ModelEvent> & { type: string },
  ) => {
    const moment = Date.parse(random.oneOf(moments)) + random.between(-90, 90) * 60_000
    events.push({
      id: `${prefix}-${events.length}`,
      occurred_at: new Date(moment).toISOString().replace('.000', ''),
      autoresponder_id: autoresponderId,
      ...message,
      ...rest,
    })
  }
  const times = (probability: number, max: number) =>
    random.chance(probability) ? random.between(1, max) : 0
  for (let i = random.between(1, 6); i > 0; i -= 1) {
    // An id that is used for two subscribers stands for two messages.
    const message = {
      message_id: random.chance(0.1) ? 'same' : `${prefix}:${i}`,
      subscriber_id: random.oneOf(subscriberIds),
    }
    const repeat = (probability: number, max: number, make: () => NewEvent) => {
      for (let n = times(probability, max); n > 0; n -= 1) add(message, make())
    }
    repeat(0.85, 2, () => ({ type: 'sent', format: random.oneOf(['text', 'html', 'multipart']) }))
    repeat(0.7, 2, () => ({ type: 'delivered' }))
    repeat(0.2, 2, () => ({ type: 'failed', too_long: random.chance(0.5) }))
    repeat(0.3, 3, () => ({
      type: 'bounced',
      bounce_type: random.oneOf(['hard', 'soft', 'soft', 'other']),
      bounce_location: random.oneOf(['local', 'remote']),
      bounce_code: random.oneOf(codes),
    }))
    repeat(0.6, 4, () => ({ type: 'opened', privacy: random.chance(0.4) }))
    repeat(0.5, 4, () => ({ type: 'clicked', url: random.oneOf(urls) }))
    repeat(0.1, 2, () => ({ type: 'unsubscribed' }))
    repeat(0.1, 2, () => ({ type: 'complained' }))
    repeat(0.1, 2, () => ({ type: 'skipped', reason: random.oneOf(['error', 'request']) }))
  }
  return random.chance(0.3) ? events : random.shuffled(events)
}
