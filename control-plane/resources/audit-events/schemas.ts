import { z } from 'zod'
import {
  auditActions,
  auditDays,
  auditedRecords,
  auditEventDocument,
} from '../../../shared/contract/schemas/audit-event.ts'
import { filterId, instantView, someOf } from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { shownFields } from '../stored-fields.ts'

/** Audit events in requests and replies. */

export const auditEventView = z
  .object({
    id: z.int(),
    occurred_at: instantView().describe('when it was done'),
    ...shownFields(auditEventDocument.omit({ _id: true, occurred_at: true }).shape),
  })
  .meta({ id: 'AuditEvent' })
export type AuditEventView = z.infer<typeof auditEventView>

export const exampleAuditEvent: AuditEventView = {
  id: 812,
  organization_id: 2,
  occurred_at: '2026-11-21T09:00:00+01:00',
  action: 'cancelled',
  record_type: 'subscriber_import',
  record_id: 41,
  record_name: 'subscribers.csv',
  by: 'api',
  api_key_id: 7,
  api_key_name: 'Nightly import',
  user_id: null,
  user_name: null,
  address: '192.0.2.10',
  changes: [],
}

const time = (description: string) =>
  z
    .string()
    .optional()
    .describe(`${description}; ISO 8601 with a time (the plus sign sent as %2B), or UNIX seconds`)

const { per_page, page_token } = tokenPagingQuery({ perPage: 100, max: 500 }).shape

export const auditEventQuery = z.object({
  per_page,
  page_token,
  page: z
    .string()
    .refine(() => false, { error: 'must not be given: the next page is asked for by page_token' })
    .optional()
    .meta({ isRefused: true }),
  record_type: someOf('only events of these types of record', auditedRecords),
  action: someOf('only events of these actions', auditActions),
  record_id: filterId('only events of the record with this id'),
  api_key_id: filterId('only what this API key did'),
  since: time('only events from this time on'),
  until: time('only events before this time'),
  organization_id: filterId(
    "the organization whose events are shown, for system admins; the caller's own by default",
  ),
})
export type AuditEventQuery = z.infer<typeof auditEventQuery>

export const summary = `What callers changed, newest first, kept for ${auditDays} days: imports, lists, fields, API keys, users and organizations. Subscribers, autoresponders, templates, forms and files are not told here`
