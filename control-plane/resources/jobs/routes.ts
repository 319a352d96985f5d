import { z } from 'zod'
import { endpoint, type Endpoint } from '../../api/endpoint.ts'
import { exampleJob, jobQuery, jobView } from './schemas.ts'
import { listJobs } from './service.ts'

interface Listing {
  path: string
  operationId: string
  scope: 'own' | 'path' | 'everywhere'
  unfinished: boolean
}

function jobsEndpoint({ path, operationId, scope, unfinished }: Listing): Endpoint {
  const which = unfinished ? 'The jobs that have not ended' : 'All jobs'
  const where = {
    own: "of the caller's organization",
    path: 'of one organization',
    everywhere: 'of all organizations',
  }
  return endpoint({
    method: 'get',
    path,
    operationId,
    summary: `${which} ${where[scope]}, newest first`,
    tag: 'Background jobs',
    needs: scope === 'everywhere' ? 'system_admin' : 'any_key',
    query: jobQuery,
    reply: { data: z.array(jobView), paging: 'pages', example: [exampleJob] },
    refusals: {
      invalid_request:
        'begins_at__after must be ISO 8601 with date and time, such as 2026-01-31T08:00:00Z (a plus sign is sent as %2B), in the years 1000 to 9999, or UNIX seconds',
    },
    handle: (call) =>
      listJobs(call, call.query(), {
        organizationId: call.organizationId,
        everywhere: scope === 'everywhere',
        unfinished,
      }),
  })
}

export const jobEndpoints = [
  jobsEndpoint({
    path: '/jobs/all',
    operationId: 'listJobs',
    scope: 'own',
    unfinished: false,
  }),
  jobsEndpoint({
    path: '/jobs/unfinished',
    operationId: 'listUnfinishedJobs',
    scope: 'own',
    unfinished: true,
  }),
  jobsEndpoint({
    path: '/jobs/all_on_all_organizations',
    operationId: 'listJobsOnAllOrganizations',
    scope: 'everywhere',
    unfinished: false,
  }),
  jobsEndpoint({
    path: '/jobs/unfinished_on_all_organizations',
    operationId: 'listUnfinishedJobsOnAllOrganizations',
    scope: 'everywhere',
    unfinished: true,
  }),
  jobsEndpoint({
    path: '/organizations/:organization_id/jobs/all',
    operationId: 'listJobsOfOrganization',
    scope: 'path',
    unfinished: false,
  }),
  jobsEndpoint({
    path: '/organizations/:organization_id/jobs/unfinished',
    operationId: 'listUnfinishedJobsOfOrganization',
    scope: 'path',
    unfinished: true,
  }),
]
