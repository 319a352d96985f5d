import { endpoint } from '../../api/endpoint.ts'
import { exampleWhoami, whoamiView } from './schemas.ts'
import { findCallerRecords } from './service.ts'
import { toView } from './view.ts'

export const whoamiEndpoints = [
  endpoint({
    method: 'get',
    path: '/whoami',
    operationId: 'whoami',
    summary: 'The API key of the request, with its user, its organization and what it may do',
    tag: 'API keys',
    needs: 'every_key',
    scope: 'own_organization',
    reply: { data: whoamiView, example: exampleWhoami },
    handle: async ({ deps, caller }) => ({ data: toView(caller, await findCallerRecords(deps, caller)) }),
  }),
]
