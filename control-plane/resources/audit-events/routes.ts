import { z } from 'zod'
import { endpoint } from '../../api/endpoint.ts'
import { malformedTime } from '../../api/query-time.ts'
import { noOrganization } from '../../api/scope.ts'
import { auditEventQuery, auditEventView, exampleAuditEvent, summary } from './schemas.ts'
import { listAuditEvents } from './service.ts'

export const auditEventEndpoints = [
  endpoint({
    method: 'get',
    path: '/audit_events',
    operationId: 'listAuditEvents',
    summary,
    tag: 'Audit events',
    needs: 'admin',
    scope: 'own_organization_or_given',
    query: auditEventQuery,
    reply: { data: z.array(auditEventView), paging: 'tokens', example: [exampleAuditEvent] },
    refusals: [malformedTime('since'), noOrganization],
    handle: (call) => listAuditEvents(call, call.query),
  }),
]
