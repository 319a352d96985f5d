import { RequestError } from '../../../control-plane/api/request-error.ts'
import { dayExpectation } from '../../../control-plane/resources/autoresponder-statistics/schemas.ts'
import { deliveryEventTypes } from '../../../shared/contract/schemas/delivery.ts'
import { autoresponder } from '../autoresponder.ts'
import type { Json } from '../service.ts'
import { onRemoteList, type Failure, type Rows } from './row.ts'
import type { World } from './world.ts'

let lastId = 500_000

/** Put into the database as it is: what is told of it is another matter than how it is made. */
async function newAutoresponder(world: World): Promise<Json> {
  const list = await world.list()
  lastId += 1
  await world.service.collections.autoresponders.insertOne(
    autoresponder({
      _id: lastId,
      name: world.unique('Autoresponder'),
      mailing_list_id: list.id,
      organization_id: world.organizationId,
    }),
  )
  return { mailing_list_id: list.id, id: lastId }
}

const common = (world: World) => ({
  id: world.unique('event'),
  occurred_at: '2026-06-15T12:00:00+02:00',
  message_id: '1',
  autoresponder_id: 1,
  subscriber_id: 1,
})

const details: Record<string, object> = {
  sent: { format: 'multipart' },
  failed: { too_long: false },
  bounced: { bounce_type: 'soft', bounce_location: 'local', bounce_code: '4.2.2' },
  opened: { privacy: true },
  clicked: { url: 'https://www.example.com/' },
  skipped: { reason: 'error' },
}

const wrong =
  (event: object, message: RegExp) =>
  (world: World): Failure => ({
    sent: {
      body: {
        delivery_events: [
          { ...common(world), type: 'delivered' },
          { ...common(world), ...event },
        ],
      },
    },
    code: 'validation_failed',
    message,
  })

const wrongEvents: [event: object, message: RegExp][] = [
  [{}, /events\.1\.type must be one of/],
  [{ type: 'returned' }, /events\.1\.type must be one of "sent", "delivered"/],
  [{ type: 'delivered', id: '' }, /events\.1\.id must not be blank/],
  [{ type: 'delivered', id: 7 }, /events\.1\.id must be a string/],
  [{ type: 'delivered', id: 'x'.repeat(256) }, /events\.1\.id must have at most 255 characters/],
  [{ type: 'delivered', message_id: 5 }, /events\.1\.message_id must be a string/],
  [{ type: 'delivered', message_id: 'x\0' }, /events\.1\.message_id must not hold NUL/],
  [{ type: 'delivered', occurred_at: '2026-06-15' }, /events\.1\.occurred_at must be a time in ISO 8601/],
  [{ type: 'delivered', occurred_at: '0000-01-01T00:00:00Z' }, /events\.1\.occurred_at must be a time/],
  [{ type: 'delivered', autoresponder_id: '1' }, /events\.1\.autoresponder_id must be an integer/],
  [{ type: 'delivered', subscriber_id: 0 }, /events\.1\.subscriber_id must be at least 1/],
  [
    { type: 'delivered', subscriber_id: null },
    /events\.1\.subscriber_id must be given with autoresponder_id/,
  ],
  [{ type: 'sent' }, /events\.1\.format is required/],
  [{ type: 'sent', format: 'both' }, /events\.1\.format must be one of/],
  [{ type: 'failed' }, /events\.1\.too_long is required/],
  [{ type: 'bounced', bounce_type: 'hard', bounce_location: 'remote' }, /events\.1\.bounce_code is required/],
  [{ type: 'opened', privacy: 'true' }, /events\.1\.privacy must be a boolean/],
  [{ type: 'clicked', url: null }, /events\.1\.url must be a string/],
  [{ type: 'skipped', reason: { $gt: '' } }, /events\.1\.reason must be one of/],
]

export const deliveryEventRows: Rows = {
  reportDeliveryEvents: {
    good: async (world) => {
      const { mailing_list_id, id: autoresponder_id } = await newAutoresponder(world)
      const subscriber = await world.post(`/mailing_lists/${mailing_list_id}/subscribers`, {
        subscriber: { email: 'ann@example.com' },
      })
      const mail = { autoresponder_id, subscriber_id: subscriber.id, a_key_that_is_none: { $set: 1 } }
      return {
        body: {
          delivery_events: deliveryEventTypes.map((type) => ({
            ...common(world),
            ...mail,
            type,
            ...details[type],
          })),
        },
      }
    },
    failures: {
      'more than 1,000 at once, whatever they are': () => ({
        sent: { body: { delivery_events: Array.from({ length: 1_001 }, () => 5) } },
        code: 'requested_too_many',
        message: /1001/,
      }),
      'an event that is none': () => ({
        sent: { body: { delivery_events: [5] } },
        code: 'validation_failed',
        message: /^delivery_events\.0 must be a hash/,
      }),
      ...Object.fromEntries(
        wrongEvents.map(([event, message]) => [JSON.stringify(event).slice(0, 80), wrong(event, message)]),
      ),
    },
  },
  getAutoresponderStatistics: {
    good: async (world) => ({
      params: await newAutoresponder(world),
      query: '?start_date=20260101&end_date=',
    }),
    refusals: [
      onRemoteList({ params: { id: 1 } }),
      ...[
        ['start_date', '20260230'],
        ['end_date', '2026-02-03'],
      ].map(([name, day]) => async (world: World) => ({
        sent: { params: await newAutoresponder(world), query: `?${name}=${day}` },
        refused: new RequestError('invalid_request', `${name} ${dayExpectation}`),
      })),
    ],
  },
}
