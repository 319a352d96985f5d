import { z } from 'zod'
import { id, instant } from './bson-schema.ts'

export const auditActions = [
  'created',
  'updated',
  'deleted',
  'run',
  'paused',
  'unpaused',
  'cancelled',
  'undone',
  'exported',
  'erased',
] as const
export type AuditAction = (typeof auditActions)[number]

export const auditedRecords = [
  'subscriber_import',
  'mailing_list',
  'custom_field',
  'api_key',
  'ssh_key',
  'user',
  'import_profile',
  'organization',
] as const
export type AuditedRecord = (typeof auditedRecords)[number]

/** How long events are kept. */
export const auditDays = 400

/** Who acted, with the names of that moment; a service acts without a key. */
export const actingParty = z.object({
  by: z.enum(['api', 'profile', 'service']),
  api_key_id: id().nullable(),
  api_key_name: z.string().nullable(),
  user_id: id().nullable(),
  user_name: z.string().nullable(),
})
export type ActingParty = z.infer<typeof actingParty>

export const byService: ActingParty = {
  by: 'service',
  ...{ api_key_id: null, api_key_name: null, user_id: null, user_name: null },
}

/** What a caller did to a record, written in the transaction that did it. It never changes. */
export const auditEventDocument = z.object({
  _id: id(),
  /** Of the record. */
  organization_id: id(),
  occurred_at: instant(),
  action: z.enum(auditActions),
  /** Null for an erasure, as are the id and the name. */
  record_type: z.enum(auditedRecords).nullable(),
  record_id: id().nullable(),
  /** The name at that moment. */
  record_name: z.string().nullable(),
  ...actingParty.shape,
  address: z.string().nullable(),
  /** Names of the request's fields whose value changed, sorted; empty unless `action` is `updated`. */
  changes: z.array(z.string()),
})
export type AuditEventDocument = z.infer<typeof auditEventDocument>
