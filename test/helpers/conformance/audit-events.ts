import { malformedTime } from '../../../control-plane/api/query-time.ts'
import { RequestError } from '../../../control-plane/api/request-error.ts'
import { noOrganization } from '../../../control-plane/api/scope.ts'
import { auditActions, auditedRecords } from '../../../shared/contract/schemas/audit-event.ts'
import type { Rows } from './row.ts'

const invalid = (message: string) => new RequestError('invalid_request', message)

export const auditEventRows: Rows = {
  listAuditEvents: {
    good: async ({ list }) => {
      await list()
      return { query: '?record_type=mailing_list,user&action=created&since=0&per_page=2' }
    },
    refusals: [
      ...['2030-01-31', 'tomorrow'].map((time) => () => ({
        sent: { query: `?since=${time}` },
        refused: malformedTime('since')('since'),
      })),
      ({ foreign }) => ({
        sent: { query: `?organization_id=${foreign.organizationId}` },
        refused: noOrganization(foreign.organizationId),
      }),
      () => ({
        sent: { query: '?page=1' },
        refused: invalid('page must not be given: the next page is asked for by page_token'),
      }),
      () => ({
        sent: { query: '?action=created,looked' },
        refused: invalid(`action must be one or more of ${auditActions.join(', ')}, separated by commas`),
      }),
      () => ({
        sent: { query: '?record_type=subscriber' },
        refused: invalid(
          `record_type must be one or more of ${auditedRecords.join(', ')}, separated by commas`,
        ),
      }),
    ],
  },
  whoami: { good: () => ({}) },
  getServiceState: { good: () => ({}) },
}
