import type { AuditEventDocument } from '../../../shared/contract/schemas/audit-event.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { AuditEventView } from './schemas.ts'

export const toView = (
  { _id, occurred_at, ...fields }: AuditEventDocument,
  zone: string,
): AuditEventView => ({ id: _id, ...fields, occurred_at: formatInstant(occurred_at, zone) })
