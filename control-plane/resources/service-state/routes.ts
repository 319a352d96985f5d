import { endpoint } from '../../api/endpoint.ts'
import { exampleServiceState, serviceStateView } from './schemas.ts'
import { readServiceState } from './service.ts'
import { toView } from './view.ts'

export const serviceStateEndpoints = [
  endpoint({
    method: 'get',
    path: '/service_state',
    operationId: 'getServiceState',
    summary: 'Whether engines are alive, how long imports of the organization wait, and what is wrong',
    tag: 'Service state',
    needs: 'any_key',
    scope: 'own_organization',
    reply: { data: serviceStateView, example: exampleServiceState },
    async handle({ deps, organizationId }) {
      const [state, zone] = await Promise.all([
        readServiceState(deps, organizationId),
        deps.reads.timeZone(organizationId),
      ])
      return { data: toView(state, zone) }
    },
  }),
]
