import { malformedTime } from '../../../control-plane/api/query-time.ts'
import type { Row, Rows } from './row.ts'

const query =
  '?state=scheduled,importing&job_type=SubscriberImport&begins_at__after=0&begins_at__before=2040-01-01T00:00:00Z'

const row = (isOfOrganization: boolean): Row => {
  const params = (organizationId: number) =>
    isOfOrganization ? { params: { organization_id: organizationId } } : {}
  return {
    good: async ({ organizationId, list, post }) => {
      await post(`/mailing_lists/${(await list()).id}/subscriber_imports`, {
        subscriber_import: {
          begins_at: '2030-01-31T08:00:00Z',
          column_mapping: ['email'],
          file_source: { type: 'json', content: 'ann@example.com' },
        },
      })
      return { ...params(organizationId), query }
    },
    refusals: ['2030-01-31', 'tomorrow', '1e3', '2030-01-31T08:00:00+01:00'].map(
      (time) =>
        ({ organizationId }) => ({
          sent: { ...params(organizationId), query: `?begins_at__after=${time}` },
          refused: malformedTime('begins_at__after')('begins_at__after'),
        }),
    ),
  }
}

export const jobRows: Rows = {
  listJobs: row(false),
  listUnfinishedJobs: row(false),
  listJobsOnAllOrganizations: row(false),
  listUnfinishedJobsOnAllOrganizations: row(false),
  listJobsOfOrganization: row(true),
  listUnfinishedJobsOfOrganization: row(true),
}
