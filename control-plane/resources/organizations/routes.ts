import { z } from 'zod'
import { endpoint } from '../../api/endpoint.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { exampleOrganization, organizationChange, organizationCreation, organizationView } from './schemas.ts'
import { changeOrganization, createOrganization, listOrganizations, organizationInPath } from './service.ts'
import { toView } from './view.ts'

const tag = 'Organizations'

const faulty = [{ name: ' ' }, { time_zone_name: 'Mars/Olympus' }]

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
    handle: (call) => listOrganizations(call, call.query),
  }),
  endpoint({
    method: 'get',
    path: '/organizations/:id',
    operationId: 'getOrganization',
    summary: 'One organization',
    tag,
    needs: 'any_key',
    record: organizationInPath,
    reply: { data: organizationView, example: exampleOrganization },
    handle: async ({ record }) => ({ data: toView(record) }),
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
      examples: {
        'an organization in Berlin': {
          organization: { name: 'Example Ltd', time_zone_name: 'Europe/Berlin' },
        },
      },
      faulty,
    },
    reply: { data: organizationView, example: exampleOrganization },
    handle: async ({ deps, caller, body }) => ({
      data: toView(await createOrganization(deps, caller, body)),
    }),
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
      examples: { 'a limit of 100,000 subscribers': { organization: { subscriber_limit: 100_000 } } },
      faulty,
    },
    record: organizationInPath,
    reply: { data: organizationView, example: { ...exampleOrganization, subscriber_limit: 100_000 } },
    handle: async ({ deps, caller, record, body }) => ({
      data: toView(await changeOrganization(deps, caller, record, body)),
    }),
  }),
]
