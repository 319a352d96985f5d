import { RequestError } from '../../../control-plane/api/request-error.ts'
import { dayExpectation } from '../../../control-plane/resources/autoresponder-statistics/schemas.ts'
import { deliveryEventTypes } from '../../../shared/contract/schemas/delivery.ts'
import { tooManyEvents } from '../../../control-plane/resources/delivery-events/refusals.ts'
import { autoresponder } from '../autoresponder.ts'
import type { Json } from '../service.ts'
import { onRemoteList, type Rows } from './row.ts'
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
    // More than are possible are not looked at.
    refusals: [
      () => ({
        sent: { body: { delivery_events: Array.from({ length: 1_001 }, () => 5) } },
        refused: tooManyEvents(1_001),
      }),
    ],
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
