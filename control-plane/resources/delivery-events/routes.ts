import { endpoint } from '../../api/endpoint.ts'
import { maxEvents, tooManyEvents } from './refusals.ts'
import { deliveryEvents, deliveryEventsView, exampleEvents, faultyEvents } from './schemas.ts'
import { recordDeliveryEvents } from './service.ts'

export const deliveryEventEndpoints = [
  endpoint({
    method: 'post',
    path: '/delivery_events',
    operationId: 'reportDeliveryEvents',
    summary: `Reports events of mails, up to ${maxEvents} a call, all or none; events may come in any order and repeatedly`,
    tag: 'Delivery events',
    needs: 'admin',
    scope: 'own_organization_or_all',
    body: {
      wrapper: 'delivery_events',
      isArray: true,
      schema: deliveryEvents,
      examples: { 'one event of each kind': { delivery_events: exampleEvents } },
      faulty: faultyEvents,
    },
    slot: 'costly',
    reply: { data: deliveryEventsView, example: { accepted: 9, duplicates: 1, ignored: 0 } },
    refusals: [tooManyEvents],
    permit({ document }) {
      if (Array.isArray(document) && document.length > maxEvents) throw tooManyEvents(document.length)
    },
    handle: async ({ deps, caller, body }) => ({ data: await recordDeliveryEvents(deps, caller, body) }),
  }),
]
