import { z } from 'zod'
import { requireRequestedRoleNotAbove } from '../../api/authorization.ts'
import { endpoint, type Endpoint } from '../../api/endpoint.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { withoutUndefined } from '../../api/validation.ts'
import { apiKeyChange, apiKeyCreation, apiKeyView, createdApiKeyView, exampleApiKey } from './schemas.ts'
import {
  changeApiKey,
  checkApiKey,
  createApiKey,
  deleteApiKey,
  findApiKey,
  listApiKeys,
  requireCallerNotBelow,
} from './service.ts'
import { toView } from './view.ts'

const tag = 'API keys'

const more = "you can't create, change or delete an API key with more permissions than your own"
const noKey = 'there is no API key 4711'
const lastKey = 'this would leave no usable system-admin key: create another one first'
const foreignUser = 'user_id names no user of organization 2'
const misplacedRole = 'role can be system_admin only in organization 1'

/** The four endpoints exist twice: on the caller's organization, and on the one in the path. */
function endpointsUnder(prefix: '' | '/organizations/:organization_id', suffix: string): Endpoint[] {
  /** Without an organization in the path, a key of any organization that the caller can access. */
  const searchedOrganization = (organizationId: number) => (prefix === '' ? null : organizationId)
  return [
    endpoint({
      method: 'get',
      path: `${prefix}/api_keys`,
      operationId: `listApiKeys${suffix}`,
      summary: 'The API keys of an organization, by id',
      tag,
      needs: 'admin',
      query: tokenPagingQuery({ perPage: 2000, max: 2000 }),
      reply: { data: z.array(apiKeyView), paging: 'pages', example: [exampleApiKey] },
      handle: (call) => listApiKeys(call, call.organizationId, call.query()),
    }),
    endpoint({
      method: 'post',
      path: `${prefix}/api_keys`,
      operationId: `createApiKey${suffix}`,
      summary: 'Creates an API key; its secret is in this reply and never again',
      tag,
      needs: 'admin',
      body: {
        wrapper: 'api_key',
        schema: apiKeyCreation,
        example: { api_key: { name: 'Nightly import' } },
      },
      // Without an organization in the path, a system admin creates the key in organization 1, where every role is possible.
      refusals: { validation_failed: [foreignUser, ...(prefix === '' ? [] : [misplacedRole])] },
      forbids: [more],
      reply: {
        data: createdApiKeyView,
        example: { ...exampleApiKey, key: 'rollcall_4t5r8wqx1h0g6y2m9c3k7v5b' },
      },
      examine: ({ deps, organizationId }, creation) =>
        checkApiKey(deps, { ...creation, organization_id: organizationId }, null),
      async handle({ deps, caller, organizationId, body, documentAsSent }) {
        requireRequestedRoleNotAbove(documentAsSent(), caller, 'an API key')
        const { document, secret } = await createApiKey(deps, caller, organizationId, body())
        return { data: { ...(await toView(deps, document)), key: secret } }
      },
    }),
    endpoint({
      method: 'put',
      path: `${prefix}/api_keys/:id`,
      operationId: `updateApiKey${suffix}`,
      summary: 'Changes the fields that are given, within 5 s everywhere',
      tag,
      needs: 'admin',
      body: {
        wrapper: 'api_key',
        schema: apiKeyChange,
        isUpdate: true,
        example: { api_key: { active: false } },
      },
      refusals: { not_found: noKey, validation_failed: [foreignUser, misplacedRole, lastKey] },
      forbids: [more],
      reply: { data: apiKeyView, example: { ...exampleApiKey, active: false } },
      async examine({ deps, caller, organizationId, params }, change) {
        const key = await findApiKey(deps, caller, params['id'], searchedOrganization(organizationId))
        await checkApiKey(deps, { ...key, ...withoutUndefined(change) }, key.user_id)
      },
      async handle({ deps, caller, organizationId, params, body, documentAsSent }) {
        const key = await findApiKey(deps, caller, params['id'], searchedOrganization(organizationId))
        // This 403 precedes all other refusals, those of the body included.
        await requireCallerNotBelow(deps, caller, key)
        requireRequestedRoleNotAbove(documentAsSent(), caller, 'an API key')
        return { data: await toView(deps, await changeApiKey(deps, caller, key, body())) }
      },
    }),
    endpoint({
      method: 'delete',
      path: `${prefix}/api_keys/:id`,
      operationId: `deleteApiKey${suffix}`,
      summary: 'Deletes an API key',
      tag,
      needs: 'admin',
      refusals: { not_found: noKey, validation_failed: lastKey },
      forbids: [more],
      reply: { data: z.null(), example: null },
      async handle({ deps, caller, organizationId, params }) {
        await deleteApiKey(deps, caller, params['id'], searchedOrganization(organizationId))
        return { data: null }
      },
    }),
  ]
}

export const apiKeyEndpoints = [
  ...endpointsUnder('', ''),
  ...endpointsUnder('/organizations/:organization_id', 'OfOrganization'),
]
