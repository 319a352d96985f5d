import { z } from 'zod'
import { malformedTime } from '../../api/query-time.ts'
import { endpoint } from '../../api/endpoint.ts'
import { exampleJob, jobQuery, jobView } from './schemas.ts'
import { listJobs } from './service.ts'

/** Each exists twice: with all jobs, and with the unfinished ones. */
const lists = [
  { prefix: '', everywhere: false, operation: 'Jobs', where: "of the caller's organization" },
  { prefix: '', everywhere: true, operation: 'JobsOnAllOrganizations', where: 'of all organizations' },
  {
    prefix: '/organizations/:organization_id',
    everywhere: false,
    operation: 'JobsOfOrganization',
    where: 'of one organization',
  },
]

export const jobEndpoints = lists.flatMap(({ prefix, everywhere, operation, where }) =>
  [false, true].map((unfinished) =>
    endpoint({
      method: 'get',
      path: `${prefix}/jobs/${unfinished ? 'unfinished' : 'all'}${everywhere ? '_on_all_organizations' : ''}`,
      operationId: `list${unfinished ? 'Unfinished' : ''}${operation}`,
      summary: `${unfinished ? 'The jobs that have not ended' : 'All jobs'} ${where}, newest first`,
      tag: 'Background jobs',
      needs: everywhere ? 'system_admin' : 'any_key',
      query: jobQuery,
      reply: { data: z.array(jobView), paging: 'pages', example: [exampleJob] },
      refusals: [malformedTime('begins_at__after')],
      handle: (call) =>
        listJobs(call, call.query, { organizationId: call.organizationId, everywhere, unfinished }),
    }),
  ),
)
