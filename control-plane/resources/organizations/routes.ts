import { z } from 'zod'
import { oldEndpoint as endpoint } from '../../api/endpoint.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { exampleOrganization, organizationChange, organizationCreation, organizationView } from './schemas.ts'
import { changeOrganization, createOrganization, findOrganization, listOrganizations } from './service.ts'
import { toView } from './view.ts'

const tag = 'Organizations'

const faultyFields = [
  'name must not be blank',
  'time_zone_name must be the IANA name of a time zone, such as Europe/Berlin',
]

export const organizationEndpoints = [
  endpoint({
    method: 'get',
    path: '/organizations',
    operationId: 'listOrganizations',
    summary: 'All organizations, by id; callers other than system admins see only their own',
    tag,
    needs: 'any_key',
    scope: 'own_organization_or_all',
    query: tokenPagingQuery({ perPage: 2000, max: 2000 }),
    reply: { data: z.array(organizationView), paging: 'pages', example: [exampleOrganization] },
    handle: (call) => listOrganizations(call, call.query()),
  }),
  endpoint({
    method: 'get',
    path: '/organizations/:id',
    operationId: 'getOrganization',
    summary: 'One organization',
    tag,
    needs: 'any_key',
    refusals: { not_found: 'there is no organization 4711' },
    reply: { data: organizationView, example: exampleOrganization },
    async handle({ deps, caller, params }) {
      return { data: toView(await findOrganization(deps, caller, params['id'])) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/organizations',
    operationId: 'createOrganization',
    summary: 'Creates an organization',
    tag,
    needs: 'system_admin',
    scope: 'all_organizations',
    body: {
      wrapper: 'organization',
      schema: organizationCreation,
      example: { organization: { name: 'Example Ltd', time_zone_name: 'Europe/Berlin' } },
    },
    reply: { data: organizationView, example: exampleOrganization },
    refusals: { validation_failed: faultyFields },
    async handle({ deps, body }) {
      return { data: toView(await createOrganization(deps, body())) }
    },
  }),
  endpoint({
    method: 'put',
    path: '/organizations/:id',
    operationId: 'updateOrganization',
    summary: 'Changes the fields that are given',
    tag,
    needs: 'system_admin',
    body: {
      wrapper: 'organization',
      schema: organizationChange,
      isUpdate: true,
      example: { organization: { subscriber_limit: 100_000 } },
    },
    reply: { data: organizationView, example: { ...exampleOrganization, subscriber_limit: 100_000 } },
    refusals: { not_found: 'there is no organization 4711', validation_failed: faultyFields },
    async handle({ deps, caller, params, body }) {
      const organization = await findOrganization(deps, caller, params['id'])
      return { data: toView(await changeOrganization(deps, organization, body())) }
    },
  }),
]
