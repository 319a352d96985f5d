import { isDeepStrictEqual } from 'node:util'
import type { ClientSession } from 'mongodb'
import {
  type ActingParty,
  type AuditAction,
  type AuditedRecord,
} from '../../../shared/contract/schemas/audit-event.ts'
import { shownFilename, type ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import type { Caller } from '../../../shared/store/api-keys.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { insertAuditEvent } from '../../store/audit-events.ts'

/** Records what callers do, in the transaction that does it. What is refused or changes nothing isn't recorded. */

export interface AuditedAct {
  action: AuditAction
  recordType: AuditedRecord
  record: { _id: number; organization_id: number }
  name: string
  /** Names of the request's fields whose value changed. */
  changes?: string[]
}

/** The key of a caller and its user, by name and id. */
export const partyOf = ({ keyId, keyName, userId, userName }: Caller): ActingParty => ({
  by: 'api',
  ...{ api_key_id: keyId, api_key_name: keyName },
  ...{ user_id: userId, user_name: userName },
})

/** Work that others wait for allocates the event's `id` before its transaction. */
export async function recordAct(
  { collections, ids }: Pick<Database, 'collections' | 'ids'>,
  session: ClientSession,
  caller: RequestCaller,
  { action, recordType, record, name, changes = [] }: AuditedAct,
  id?: number,
): Promise<void> {
  await insertAuditEvent(
    collections,
    {
      _id: id ?? (await allocateEventId(ids)),
      organization_id: record.organization_id,
      occurred_at: clock.now(),
      action,
      record_type: recordType,
      record_id: record._id,
      record_name: name,
      ...partyOf(caller),
      address: caller.address,
      changes: changes.toSorted(),
    },
    session,
  )
}

export const allocateEventId = (ids: Database['ids']): Promise<number> => ids.allocate('audit_event')

export const auditedImport = (document: ImportDocument) => ({
  recordType: 'subscriber_import' as const,
  record: document,
  name: shownFilename(document.source),
})

/** Records a change, unless it changed nothing. */
export async function recordChange(
  database: Pick<Database, 'collections' | 'ids'>,
  session: ClientSession,
  caller: RequestCaller,
  act: Omit<AuditedAct, 'action'> & { changes: string[] },
): Promise<void> {
  if (act.changes.length > 0) await recordAct(database, session, caller, { ...act, action: 'updated' })
}

/** Names of the given fields whose value differs from that of the record. */
export const changedFields = (record: object, given: object): string[] =>
  Object.entries(given)
    .filter(([name, value]) => value !== undefined && !isDeepStrictEqual(Reflect.get(record, name), value))
    .map(([name]) => name)
