import type { Collection, CreateIndexesOptions, Db, Document } from 'mongodb'
import type { z } from 'zod'
import { apiKeyDocument } from './api-key.ts'
import { auditDays, auditEventDocument } from './audit-event.ts'
import { autoresponderDocument, autoresponderTargets, reactionDocument } from './autoresponder.ts'
import {
  authFailureDocument,
  counterDocument,
  deletedFieldDocument,
  idempotencyDocument,
  installationDocument,
} from './bookkeeping.ts'
import { callbackDays, callbackDocument } from './callback.ts'
import { campaignTemplateDocument } from './campaign-template.ts'
import { confirmationFormDocument, pendingSubscriberDocument } from './confirmation.ts'
import { customFieldDocument } from './custom-field.ts'
import {
  autoresponderDayDocument,
  bounceCodeDocument,
  clickedLinkDocument,
  deliveryEventDocument,
  deliveryMessageDocument,
} from './delivery.ts'
import { engineDocument, processDocument } from './registration.ts'
import { chunkDocument, failureDocument, importDocument, outcomeDocument } from './import.ts'
import { mailingListDocument } from './mailing-list.ts'
import { organizationDocument } from './organization.ts'
import { schemaDocument } from './schema-version.ts'
import { deletedSubscriberDocument, subscriberCountDocument, subscriberDocument } from './subscriber.ts'
import { blobPieceDocument, ledgerDocument, uploadDocument } from './upload.ts'
import { userDocument } from './user.ts'

export interface CollectionDefinition<Schema extends z.ZodType<Document> = z.ZodType<Document>> {
  name: string
  schema: Schema
  /** Besides that on `_id`. */
  indexes: { keys: Readonly<Record<string, number>>; options?: CreateIndexesOptions }[]
}

/** Ended imports whose logs aren't purged yet, by the time of their end. */
export const unpurgedIndex = 'finished_at_with_logs'

/** The lock of a list: at most one import has `holds_list`. */
export const lockedListsIndex = { mailing_list_id: 1, holds_list: 1 } as const

/** Imports that aren't finalized yet, so that those which still wait can be passed over. Finalized ones aren't in the index. */
export const notFinalizedIndex = { state: 1, begins_at: 1, _id: 1 } as const

/**
 * Imports that haven't started, by list. Dry runs need no lock of a list, so they are indexed by organization. The
 * fields with constant values come first, so that the server can skip from one queue to the next.
 */
export const waitingOfListIndex = {
  state: 1,
  'options.dry_run': 1,
  mailing_list_id: 1,
  begins_at: 1,
  _id: 1,
  organization_id: 1,
  'source.type': 1,
} as const
export const waitingDryRunsIndex = {
  state: 1,
  'options.dry_run': 1,
  organization_id: 1,
  begins_at: 1,
  _id: 1,
} as const

/** Imports that ended and aren't finalized yet, by organization. */
export const endedIndex = { finalized: 1, organization_id: 1, finished_at: 1, _id: 1 } as const

/** The imports of a list by id. */
export const newestOfListIndex = { mailing_list_id: 1, _id: -1 } as const

/** Queued reactions, by autoresponder and the time at which they can be taken. */
export const queuedIndex = { state: 1, autoresponder_id: 1, available_at: 1, id: 1 } as const

/** Reactions with a lease, by its token. */
export const leasedIndex = { 'lease.token': 1, id: 1 } as const

/** All reactions of an autoresponder by id. With the due time, queued ones are told from due ones without reading them. */
export const reactionsIndex = { autoresponder_id: 1, state: 1, id: 1, due_at: 1 } as const

/** Callbacks that are neither delivered nor given up, by queue and due time. */
export const callbacksIndex = { state: 1, queue: 1, due_at: 1, _id: 1 } as const

/** Organizations with a change of the subscriber limit that isn't enforced yet. */
export const limitChangeIndex = { limit_change: 1 } as const

/** Blobs in the database by the time when they were begun. */
export const blobAgeIndex = { begun_at: 1, blob: 1 } as const

export const reservedQuotaIndex = 'organization_id_with_quota_reserved'

/** The collections by their name in code, with the schema of their documents and their indexes. */
const collections = {
  schema: collection('schema', schemaDocument),
  counters: collection('counters', counterDocument),
  installation: collection('installation', installationDocument),
  authFailures: collection('auth_failures', authFailureDocument, [
    { keys: { until: 1 }, options: { expireAfterSeconds: 0 } },
  ]),
  idempotencyKeys: collection('idempotency_keys', idempotencyDocument, [
    { keys: { expires_at: 1 }, options: { expireAfterSeconds: 0 } },
  ]),
  organizations: collection('organizations', organizationDocument, [
    { keys: limitChangeIndex, options: { sparse: true } },
  ]),
  apiKeys: collection('api_keys', apiKeyDocument, [
    { keys: { key_hash: 1 }, options: { unique: true } },
    { keys: { organization_id: 1, _id: 1 } },
    { keys: { user_id: 1 } },
  ]),
  auditEvents: collection('audit_events', auditEventDocument, [
    { keys: { organization_id: 1, _id: -1 } },
    { keys: { organization_id: 1, record_id: 1, _id: -1 } },
    { keys: { occurred_at: 1 }, options: { expireAfterSeconds: auditDays * 24 * 3_600 } },
  ]),
  users: collection('users', userDocument, [
    { keys: { email_key: 1 }, options: { unique: true } },
    { keys: { organization_id: 1, _id: 1 } },
    { keys: { full_name_key: 1, _id: 1 } },
    { keys: { role: 1, active: 1 } },
  ]),
  mailingLists: collection('mailing_lists', mailingListDocument, [
    { keys: { organization_id: 1, name_key: 1 }, options: { unique: true } },
  ]),
  customFields: collection('custom_fields', customFieldDocument, [
    { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
  ]),
  deletedFields: collection('deleted_fields', deletedFieldDocument),
  autoresponders: collection('autoresponders', autoresponderDocument, [
    { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
    // Autoresponders that another autoresponder's mail triggers. Few have such a target, so the index is partial.
    ...autoresponderTargets.map((target) => ({
      keys: { [target]: 1 },
      options: { partialFilterExpression: { [target]: { $gt: 0 } } },
    })),
    { keys: { organization_id: 1 } },
  ]),
  campaignTemplates: collection('campaign_templates', campaignTemplateDocument, [
    { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
    { keys: { organization_id: 1, _id: 1 } },
  ]),
  reactions: collection('reactions', reactionDocument, [
    { keys: reactionsIndex },
    { keys: queuedIndex, options: { partialFilterExpression: { state: 'queued' } } },
    { keys: leasedIndex, options: { partialFilterExpression: { 'lease.token': { $exists: true } } } },
  ]),
  deliveryEvents: collection('delivery_events', deliveryEventDocument),
  deliveryMessages: collection('delivery_messages', deliveryMessageDocument),
  clickedLinks: collection('clicked_links', clickedLinkDocument),
  autoresponderDays: collection('autoresponder_days', autoresponderDayDocument),
  bounceCodes: collection('bounce_codes', bounceCodeDocument),
  deletedSubscribers: collection('deleted_subscribers', deletedSubscriberDocument),
  subscribers: collection('subscribers', subscriberDocument, [
    // For reads by id and all kinds of paging. Ids from the counter are unique anyway; a unique index would cost the
    // server 5 us a row.
    { keys: { mailing_list_id: 1, id: 1 } },
    {
      // Only for lists with an alternate primary key; on other lists `_id` contains the email.
      keys: { mailing_list_id: 1, email_key: 1, id: 1 },
      options: { partialFilterExpression: { email_key: { $exists: true } } },
    },
  ]),
  confirmationForms: collection('confirmation_forms', confirmationFormDocument, [
    { keys: { mailing_list_id: 1, _id: 1 } },
  ]),
  pendingSubscribers: collection('pending_subscribers', pendingSubscriberDocument, [
    { keys: { token: 1 }, options: { unique: true } },
    { keys: { expires_at: 1 }, options: { expireAfterSeconds: 0 } },
  ]),
  subscriberCounts: collection('subscriber_counts', subscriberCountDocument, [
    { keys: { organization_id: 1, mailing_list_id: 1 } },
    { keys: { mailing_list_id: 1 } },
  ]),
  imports: collection('imports', importDocument, [
    // This unique index is the lock that lets one import at a time write to a list.
    {
      keys: lockedListsIndex,
      options: { unique: true, partialFilterExpression: { holds_list: true } },
    },
    { keys: notFinalizedIndex, options: { partialFilterExpression: { finalized: false } } },
    {
      keys: waitingOfListIndex,
      options: { partialFilterExpression: { state: 'scheduled', 'options.dry_run': false } },
    },
    {
      keys: waitingDryRunsIndex,
      options: { partialFilterExpression: { state: 'scheduled', 'options.dry_run': true } },
    },
    {
      keys: endedIndex,
      // `finished_at` is null until the end.
      options: { partialFilterExpression: { finalized: false, finished_at: { $gt: new Date(0) } } },
    },
    { keys: { state: 1 } },
    {
      keys: { finished_at: 1 },
      options: { name: unpurgedIndex, partialFilterExpression: { logs_purged_at: null } },
    },
    { keys: { organization_id: 1, finished_at: -1, _id: -1 } },
    // The imports of a list by their end; those that haven't ended are neighbours.
    { keys: { mailing_list_id: 1, finished_at: -1, _id: -1 } },
    { keys: { organization_id: 1, _id: -1 } },
    // For the list's imports in order of creation, and its last one.
    { keys: newestOfListIndex },
    // Finds ended imports that still have secrets.
    { keys: { has_secrets: 1, finalized: 1 } },
  ]),
  chunks: collection('import_chunks', chunkDocument, [
    { keys: { import_id: 1, state: 1, number: 1 } },
    { keys: { state: 1, 'lease.holder': 1 } },
    // Chunks with a reservation under a subscriber limit: few, and none where there is no limit.
    {
      keys: { organization_id: 1 },
      options: { name: reservedQuotaIndex, partialFilterExpression: { quota_reserved: { $gt: 0 } } },
    },
  ]),
  outcomes: collection('import_outcomes', outcomeDocument),
  failures: collection('import_failures', failureDocument),
  callbacks: collection('import_callbacks', callbackDocument, [
    { keys: callbacksIndex, options: { partialFilterExpression: { state: 'waiting' } } },
    { keys: { ended_at: 1 }, options: { expireAfterSeconds: callbackDays * 24 * 3_600 } },
  ]),
  engines: collection('engines', engineDocument, [{ keys: { number: 1 }, options: { unique: true } }]),
  processes: collection('processes', processDocument),
  uploads: collection('uploads', uploadDocument, [
    {
      keys: { organization_id: 1, name: 1, state: 1 },
      options: { unique: true, partialFilterExpression: { state: { $in: ['finished', 'unfinished'] } } },
    },
    { keys: { blob: 1 } },
    { keys: { state: 1 }, options: { partialFilterExpression: { state: 'unfinished' } } },
    { keys: { pinned_by: 1 }, options: { partialFilterExpression: { 'pinned_by.0': { $exists: true } } } },
  ]),
  ledgers: collection('ledgers', ledgerDocument),
  blobPieces: collection('blob_pieces', blobPieceDocument, [
    { keys: { blob: 1, n: 1 }, options: { unique: true } },
    { keys: blobAgeIndex },
  ]),
}

function collection<Schema extends z.ZodType<Document>>(
  name: string,
  schema: Schema,
  indexes: CollectionDefinition['indexes'] = [],
): CollectionDefinition<Schema> {
  return { name, schema, indexes }
}

/** The definitions of all of them. */
export const collectionDefinitions = Object.values<CollectionDefinition>(collections)

/** A capped collection: old wake-ups are removed by the server, and engines wait at its end with a tailable cursor. */
export const wakeUpCollectionName = 'wake_ups'

/** What may have become due (shared/store/wake-up.ts). */
export type WakeUp =
  /** Imports may be started on a list, or dry runs of an organization. */
  | { reason: 'created'; organization_id: number; list_id: number | null }
  /** Something of imports: of one, where its id is given. */
  | { reason: 'imports'; import_id?: number }
  /** An import has ended, with nothing left to do. */
  | { reason: 'finished'; import_id: number }
  | { reason: 'callback' }

type WakeUpDocument = WakeUp | { reason: 'listening' }

/** Returns the collections of a database, with the types of their documents. */
export function openCollections(db: Db) {
  return {
    ...open(db, collections),
    wakeUps: db.collection<WakeUpDocument>(wakeUpCollectionName),
  }
}

type Opened<Definitions extends Record<string, CollectionDefinition>> = {
  [Key in keyof Definitions]: Collection<z.infer<Definitions[Key]['schema']>>
}

function open<Definitions extends Record<string, CollectionDefinition>>(db: Db, definitions: Definitions) {
  const opened = Object.entries(definitions).map(([key, { name }]) => [key, db.collection(name)])
  return Object.fromEntries(opened) as Opened<Definitions>
}

export type Collections = ReturnType<typeof openCollections>
