import { RequestError } from '../../api/request-error.ts'
import { oldEndpoint as endpoint } from '../../api/endpoint.ts'
import { deliveryEvents, deliveryEventsView, exampleEvents, faultyEvents, maxEvents } from './schemas.ts'
import { recordDeliveryEvents } from './service.ts'

const tooManyEvents = (count: number): string =>
  `${count} events were sent, and ${maxEvents} are possible at once: send them in several calls`

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
      example: { delivery_events: exampleEvents },
    },
    isCostly: true,
    reply: { data: deliveryEventsView, example: { accepted: 9, duplicates: 1, ignored: 0 } },
    refusals: {
      validation_failed: faultyEvents,
      requested_too_many: tooManyEvents(1_200),
    },
    async handle({ deps, caller, body, documentAsSent }) {
      const sent = documentAsSent()
      if (Array.isArray(sent) && sent.length > maxEvents)
        throw new RequestError('requested_too_many', tooManyEvents(sent.length))
      return { data: await recordDeliveryEvents(deps, caller, body()) }
    },
  }),
]
