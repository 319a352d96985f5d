import type { Filter } from 'mongodb'
import type { AuditEventDocument } from '../../../shared/contract/schemas/audit-event.ts'
import type { PageCall } from '../../api/json-page.ts'
import { PageReader } from '../../api/json-page.ts'
import type { Page } from '../../api/paging.ts'
import { readTime } from '../../api/query-time.ts'
import { scopedOrganization } from '../../api/scope.ts'
import { pageStart, tokenPaging } from '../../api/token-paging.ts'
import type { AuditEventQuery } from './schemas.ts'
import { toView } from './view.ts'

/**
 * One page of an organization's events, newest first. Throws `not_found` for an organization that the caller can't
 * access, and `invalid_request` for a malformed time.
 */
export async function listAuditEvents(
  call: PageCall,
  { organization_id: wanted, page: _refused, per_page, page_token, ...filters }: AuditEventQuery,
): Promise<Page> {
  const { deps, caller } = call
  const organizationId = await scopedOrganization(
    deps,
    caller,
    wanted === undefined ? undefined : String(wanted),
  )
  const zone = await deps.reads.timeZone(organizationId)
  const filter = buildFilter(organizationId, filters, zone)
  const query = { page: undefined, per_page, page_token }
  const scope = `audit events ${JSON.stringify([organizationId, filters])}`
  const { after } = pageStart(deps, query, scope)
  const { auditEvents } = deps.database.collections
  const reader = new PageReader<AuditEventDocument>({
    call,
    max: per_page,
    views: (documents) => documents.map((document) => toView(document, zone)),
  })
  const behind = after === null ? filter : { $and: [filter, { _id: { $lt: Number(after) } }] }
  const [total] = await Promise.all([
    page_token === undefined ? auditEvents.countDocuments(filter) : null,
    reader.read(auditEvents.find(behind).sort({ _id: -1 }).limit(reader.limit)),
  ])
  const last = reader.last === null ? null : String(reader.last._id)
  return { data: reader.data, paging: tokenPaging(deps, query, { scope, last, total }) }
}

function buildFilter(
  organizationId: number,
  { record_type, action, record_id, api_key_id, since, until }: Partial<AuditEventQuery>,
  zone: string,
): Filter<AuditEventDocument> {
  const from = since === undefined ? {} : { $gte: readTime('since', since, zone) }
  const to = until === undefined ? {} : { $lt: readTime('until', until, zone) }
  return {
    organization_id: organizationId,
    ...(record_id === undefined ? {} : { record_id }),
    ...(record_type === undefined ? {} : { record_type: { $in: record_type } }),
    ...(action === undefined ? {} : { action: { $in: action } }),
    ...(api_key_id === undefined ? {} : { api_key_id }),
    ...(since === undefined && until === undefined ? {} : { occurred_at: { ...from, ...to } }),
  }
}
