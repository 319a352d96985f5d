import { RequestError } from '../../../shared/contract/errors.ts'
import { endpoint } from '../../api/endpoint.ts'
import { deliveryEvents, deliveryEventsView, exampleEvents, faultyEvents, maxEvents } from './schemas.ts'
import { recordDeliveryEvents } from './service.ts'

export const deliveryEventEndpoints = [
  endpoint({
    method: 'post',
    path: '/delivery_events',
    operationId: 'reportDeliveryEvents',
    summary: `What became of mails, up to ${maxEvents} events a call, all or none: in any order, and as often as it takes`,
    tag: 'Delivery events',
    needs: 'admin',
    scope: 'own_organization_or_all',
    body: {
      wrapper: 'delivery_events',
      isArray: true,
      schema: deliveryEvents,
      example: { delivery_events: exampleEvents },
    },
    isCostly: true,
    reply: { data: deliveryEventsView, example: { accepted: 9, duplicates: 1, ignored: 0 } },
    refusals: {
      validation_failed: faultyEvents,
      requested_too_many: `1200 events were sent, and ${maxEvents} are possible at once: send them in several calls`,
    },
    async handle({ deps, caller, body, documentAsSent }) {
      const sent = documentAsSent()
      if (Array.isArray(sent) && sent.length > maxEvents)
        throw new RequestError(
          'requested_too_many',
          `${sent.length} events were sent, and ${maxEvents} are possible at once: send them in several calls`,
        )
      return { data: await recordDeliveryEvents(deps, caller, body()) }
    },
  }),
]
