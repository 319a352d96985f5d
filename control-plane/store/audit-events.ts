import type { ClientSession } from 'mongodb'
import type { AuditEventDocument } from '../../shared/contract/schemas/audit-event.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** Writes of `audit_events`, in the transaction of what they tell. */
export async function insertAuditEvent(
  { auditEvents }: Collections,
  document: AuditEventDocument,
  session: ClientSession,
): Promise<void> {
  await auditEvents.insertOne(document, { session })
}
