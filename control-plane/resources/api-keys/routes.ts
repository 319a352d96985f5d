import { z } from 'zod'
import type { ApiKeyDocument } from '../../../shared/contract/schemas/api-key.ts'
import { requireRequestedRoleNotAbove } from '../../api/authorization.ts'
import { endpoint, type Endpoint, type RecordOfPath } from '../../api/endpoint.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { noSystemKeyLeft, systemAdminElsewhere } from '../credential-changes.ts'
import {
  isFile,
  moreThanYours,
  noApiKey,
  noSuchUser,
  noUserWithUploads,
  otherCase,
  uploadsOnly,
} from './refusals.ts'
import { apiKeyChange, apiKeyCreation, apiKeyView, createdApiKeyView, exampleApiKey } from './schemas.ts'
import {
  changeApiKey,
  createApiKey,
  deleteApiKey,
  findApiKey,
  listApiKeys,
  requireCallerNotBelow,
} from './service.ts'
import { toView } from './view.ts'

const tag = 'API keys'
const ofUploads = [uploadsOnly, noUserWithUploads, otherCase, isFile]

/** The endpoints exist twice: on the caller's organization, and on the one in the path. */
function endpointsUnder(prefix: '' | '/organizations/:organization_id', suffix: string): Endpoint[] {
  const keyInPath: RecordOfPath<ApiKeyDocument> = {
    refusals: [noApiKey],
    // Without an organization in the path, a key of any organization that the caller can access.
    find: ({ deps, caller, params, organizationId }) =>
      findApiKey(deps, caller, params['id'], prefix === '' ? null : organizationId),
  }
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
      handle: (call) => listApiKeys(call, call.organizationId, call.query),
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
        examples: { 'a key for a nightly import': { api_key: { name: 'Nightly import' } } },
      },
      // Without an organization in the path, a system admin creates the key in organization 1, where every role is possible.
      refusals: [moreThanYours, noSuchUser, ...ofUploads, ...(prefix === '' ? [] : [systemAdminElsewhere])],
      reply: {
        data: createdApiKeyView,
        example: { ...exampleApiKey, last_used_at: null, key: 'rollcall_4t5r8wqx1h0g6y2m9c3k7v5b' },
      },
      permit: ({ caller, document }) => requireRequestedRoleNotAbove(document, caller, moreThanYours),
      async handle({ deps, caller, organizationId, body }) {
        const { document, secret } = await createApiKey(deps, caller, organizationId, body)
        return { data: { ...(await toView(deps, document)), key: secret } }
      },
    }),
    endpoint({
      method: 'get',
      path: `${prefix}/api_keys/:id`,
      operationId: `getApiKey${suffix}`,
      summary: 'One API key, without its secret',
      tag,
      needs: 'admin',
      record: keyInPath,
      reply: { data: apiKeyView, example: exampleApiKey },
      handle: async ({ deps, record }) => ({ data: await toView(deps, record) }),
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
        examples: { 'a key is switched off': { api_key: { active: false } } },
      },
      record: keyInPath,
      async permit({ deps, caller, document }, key) {
        await requireCallerNotBelow(deps, caller, key)
        requireRequestedRoleNotAbove(document, caller, moreThanYours)
      },
      refusals: [moreThanYours, noSuchUser, ...ofUploads, systemAdminElsewhere, noSystemKeyLeft],
      reply: { data: apiKeyView, example: { ...exampleApiKey, active: false } },
      handle: async ({ deps, caller, record, body }) => ({
        data: await toView(deps, await changeApiKey(deps, caller, record, body)),
      }),
    }),
    endpoint({
      method: 'delete',
      path: `${prefix}/api_keys/:id`,
      operationId: `deleteApiKey${suffix}`,
      summary: 'Deletes an API key',
      tag,
      needs: 'admin',
      record: keyInPath,
      refusals: [moreThanYours, noSystemKeyLeft],
      reply: { data: z.null(), example: null },
      async handle({ deps, caller, record }) {
        await deleteApiKey(deps, caller, record)
        return { data: null }
      },
    }),
  ]
}

export const apiKeyEndpoints = [
  ...endpointsUnder('', ''),
  ...endpointsUnder('/organizations/:organization_id', 'OfOrganization'),
]
