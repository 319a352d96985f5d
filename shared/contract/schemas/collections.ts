import type { CreateIndexesOptions, Db } from 'mongodb'
import type { z } from 'zod'
import { apiKeyDocument, type ApiKeyDocument } from './api-key.ts'
import {
  autoresponderDocument,
  autoresponderTargets,
  reactionDocument,
  type AutoresponderDocument,
  type ReactionDocument,
} from './autoresponder.ts'
import {
  authFailureDocument,
  counterDocument,
  deletedFieldDocument,
  idempotencyDocument,
  installationDocument,
  type AuthFailureDocument,
  type CounterDocument,
  type DeletedFieldDocument,
  type IdempotencyDocument,
  type InstallationDocument,
} from './bookkeeping.ts'
import { callbackDays, callbackDocument, type CallbackDocument } from './callback.ts'
import { campaignTemplateDocument, type CampaignTemplateDocument } from './campaign-template.ts'
import {
  confirmationFormDocument,
  pendingSubscriberDocument,
  type ConfirmationFormDocument,
  type PendingSubscriberDocument,
} from './confirmation.ts'
import { customFieldDocument, type CustomFieldDocument } from './custom-field.ts'
import {
  autoresponderDayDocument,
  bounceCodeDocument,
  clickedLinkDocument,
  deliveryEventDocument,
  deliveryMessageDocument,
  type AutoresponderDayDocument,
  type BounceCodeDocument,
  type ClickedLinkDocument,
  type DeliveryEventDocument,
  type DeliveryMessageDocument,
} from './delivery.ts'
import { engineDocument, processDocument, type EngineDocument, type ProcessDocument } from './registration.ts'
import {
  gridFileDocument,
  gridPieceDocument,
  type GridFileDocument,
  type GridPieceDocument,
} from './grid-file.ts'
import {
  chunkDocument,
  failureDocument,
  importDocument,
  outcomeDocument,
  type ChunkDocument,
  type FailureDocument,
  type ImportDocument,
  type OutcomeDocument,
} from './import.ts'
import { mailingListDocument, type MailingListDocument } from './mailing-list.ts'
import { organizationDocument, type OrganizationDocument } from './organization.ts'
import { outboxDocument, type OutboxDocument } from './outbox.ts'
import { schemaDocument, type SchemaDocument } from './schema-version.ts'
import {
  deletedSubscriberDocument,
  subscriberCountDocument,
  subscriberDocument,
  type DeletedSubscriberDocument,
  type SubscriberCountDocument,
  type SubscriberDocument,
} from './subscriber.ts'
import { uploadLockDocument, type UploadLockDocument } from './upload-lock.ts'
import {
  stableUploadDocument,
  uploadNameDocument,
  uploadUsageDocument,
  type StableUploadDocument,
  type UploadNameDocument,
  type UploadUsageDocument,
} from './upload.ts'
import { userDocument, type UserDocument } from './user.ts'

export interface CollectionDefinition {
  name: string
  schema: z.ZodType
  indexes: { keys: Readonly<Record<string, number>>; options?: CreateIndexesOptions }[]
}

/** Ended imports whose logs aren't purged yet, by the time of their end. */
export const unpurgedIndex = 'finished_at_with_logs'

/** The lock of a list: at most one import has `holds_list`. */
export const lockedListsIndex = { mailing_list_id: 1, holds_list: 1 } as const

/** Imports that aren't finalized yet. Finalized ones, nearly all imports, aren't in the index. */
export const notFinalizedIndex = { begins_at: 1, _id: 1 } as const

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
export const endedIndex = { settled: 1, organization_id: 1, finished_at: 1, _id: 1 } as const

/** The imports of a list by their end; those that haven't ended are neighbours. */
export const unfinishedOfListIndex = { mailing_list_id: 1, finished_at: -1, _id: -1 } as const

/** Queued reactions, by autoresponder and due time. */
export const queuedIndex = { state: 1, autoresponder_id: 1, due_at: 1, id: 1 } as const

/** Messages that aren't handed out, by queue and due time. */
export const readyIndex = { state: 1, queue: 1, due_at: 1, _id: 1 } as const

/** Messages that are handed out, by organization and the end of their lease. */
export const leasedIndex = { state: 1, organization_id: 1, leased_until: 1 } as const

/** Callbacks that are neither delivered nor given up, by queue and due time. */
export const callbacksIndex = { state: 1, queue: 1, due_at: 1, _id: 1 } as const

/** Organizations with a change of the subscriber limit that isn't enforced yet. */
export const limitChangeIndex = { limit_change: 1 } as const

export const reservedQuotaIndex = 'organization_id_with_places_held'

/** All collections with the schema of their documents and their indexes besides that on `_id`. */
export const collectionDefinitions: CollectionDefinition[] = [
  { name: 'schema', schema: schemaDocument, indexes: [] },
  { name: 'counters', schema: counterDocument, indexes: [] },
  { name: 'installation', schema: installationDocument, indexes: [] },
  {
    name: 'auth_failures',
    schema: authFailureDocument,
    indexes: [{ keys: { until: 1 }, options: { expireAfterSeconds: 0 } }],
  },
  {
    name: 'idempotency_keys',
    schema: idempotencyDocument,
    indexes: [{ keys: { expires_at: 1 }, options: { expireAfterSeconds: 0 } }],
  },
  {
    name: 'organizations',
    schema: organizationDocument,
    indexes: [{ keys: limitChangeIndex, options: { sparse: true } }],
  },
  {
    name: 'api_keys',
    schema: apiKeyDocument,
    indexes: [
      { keys: { key_hash: 1 }, options: { unique: true } },
      { keys: { organization_id: 1, _id: 1 } },
      { keys: { user_id: 1 } },
    ],
  },
  {
    name: 'users',
    schema: userDocument,
    indexes: [
      { keys: { email_key: 1 }, options: { unique: true } },
      { keys: { organization_id: 1, _id: 1 } },
      { keys: { full_name_key: 1, _id: 1 } },
      { keys: { role: 1, active: 1 } },
    ],
  },
  {
    name: 'mailing_lists',
    schema: mailingListDocument,
    indexes: [{ keys: { organization_id: 1, name_key: 1 }, options: { unique: true } }],
  },
  {
    name: 'custom_fields',
    schema: customFieldDocument,
    indexes: [{ keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } }],
  },
  { name: 'deleted_fields', schema: deletedFieldDocument, indexes: [] },
  {
    name: 'autoresponders',
    schema: autoresponderDocument,
    indexes: [
      { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
      // Autoresponders that another autoresponder's mail triggers. Few have such a target, so the index is partial.
      ...autoresponderTargets.map((target) => ({
        keys: { [target]: 1 },
        options: { partialFilterExpression: { [target]: { $gt: 0 } } },
      })),
      { keys: { organization_id: 1 } },
    ],
  },
  {
    name: 'campaign_templates',
    schema: campaignTemplateDocument,
    indexes: [
      { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
      { keys: { organization_id: 1, _id: 1 } },
    ],
  },
  {
    name: 'reactions',
    schema: reactionDocument,
    indexes: [
      { keys: { autoresponder_id: 1, state: 1, id: 1 } },
      { keys: queuedIndex, options: { partialFilterExpression: { state: 'queued' } } },
    ],
  },
  {
    name: 'outbox',
    schema: outboxDocument,
    indexes: [
      { keys: readyIndex, options: { partialFilterExpression: { state: 'ready' } } },
      { keys: leasedIndex, options: { partialFilterExpression: { state: 'taken' } } },
    ],
  },
  { name: 'delivery_events', schema: deliveryEventDocument, indexes: [] },
  { name: 'delivery_messages', schema: deliveryMessageDocument, indexes: [] },
  { name: 'clicked_links', schema: clickedLinkDocument, indexes: [] },
  { name: 'autoresponder_days', schema: autoresponderDayDocument, indexes: [] },
  { name: 'bounce_codes', schema: bounceCodeDocument, indexes: [] },
  { name: 'deleted_subscribers', schema: deletedSubscriberDocument, indexes: [] },
  {
    name: 'subscribers',
    schema: subscriberDocument,
    indexes: [
      // For reads by id and all kinds of paging. Ids from the counter are unique anyway; a unique index would cost the
      // server 5 us a row.
      { keys: { mailing_list_id: 1, id: 1 } },
      {
        // Only for lists with an alternate primary key; on other lists `_id` contains the email.
        keys: { mailing_list_id: 1, email_key: 1, id: 1 },
        options: { partialFilterExpression: { email_key: { $exists: true } } },
      },
    ],
  },
  {
    name: 'confirmation_forms',
    schema: confirmationFormDocument,
    indexes: [{ keys: { mailing_list_id: 1, _id: 1 } }],
  },
  {
    name: 'pending_subscribers',
    schema: pendingSubscriberDocument,
    indexes: [
      { keys: { token: 1 }, options: { unique: true } },
      { keys: { expires_at: 1 }, options: { expireAfterSeconds: 0 } },
    ],
  },
  {
    name: 'subscriber_counts',
    schema: subscriberCountDocument,
    indexes: [{ keys: { organization_id: 1, mailing_list_id: 1 } }, { keys: { mailing_list_id: 1 } }],
  },
  {
    name: 'imports',
    schema: importDocument,
    indexes: [
      // This unique index is the lock that lets one import at a time write to a list.
      {
        keys: lockedListsIndex,
        options: { unique: true, partialFilterExpression: { holds_list: true } },
      },
      { keys: notFinalizedIndex, options: { partialFilterExpression: { settled: false } } },
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
        options: { partialFilterExpression: { settled: false, finished_at: { $gt: new Date(0) } } },
      },
      { keys: { state: 1 } },
      {
        keys: { finished_at: 1 },
        options: { name: unpurgedIndex, partialFilterExpression: { logs_purged_at: null } },
      },
      { keys: { organization_id: 1, finished_at: -1, _id: -1 } },
      { keys: unfinishedOfListIndex },
      { keys: { organization_id: 1, _id: -1 } },
      // Finds ended imports that may still have secrets: few, and after an upgrade those of the earlier version.
      { keys: { has_secrets: 1, settled: 1 } },
    ],
  },
  {
    name: 'import_chunks',
    schema: chunkDocument,
    indexes: [
      { keys: { import_id: 1, state: 1, number: 1 } },
      { keys: { state: 1, engine_id: 1 } },
      // Chunks with a reservation under a subscriber limit: few, and none where there is no limit.
      {
        keys: { organization_id: 1 },
        options: { name: reservedQuotaIndex, partialFilterExpression: { places_held: { $gt: 0 } } },
      },
    ],
  },
  { name: 'import_outcomes', schema: outcomeDocument, indexes: [] },
  { name: 'import_failures', schema: failureDocument, indexes: [] },
  {
    name: 'import_callbacks',
    schema: callbackDocument,
    indexes: [
      { keys: callbacksIndex, options: { partialFilterExpression: { state: 'waiting' } } },
      { keys: { ended_at: 1 }, options: { expireAfterSeconds: callbackDays * 24 * 3_600 } },
    ],
  },
  { name: 'engines', schema: engineDocument, indexes: [{ keys: { number: 1 }, options: { unique: true } }] },
  { name: 'processes', schema: processDocument, indexes: [] },
  { name: 'upload_locks', schema: uploadLockDocument, indexes: [] },
  { name: 'upload_usage', schema: uploadUsageDocument, indexes: [] },
  {
    name: 'upload_names',
    schema: uploadNameDocument,
    indexes: [
      { keys: { organization_id: 1, name: 1 } },
      { keys: { 'finished.content': 1 } },
      { keys: { 'unfinished.content': 1 } },
    ],
  },
  {
    name: 'settled_uploads',
    schema: stableUploadDocument,
    // Files that are older than an hour count as stable without an entry.
    indexes: [{ keys: { published_at: 1 }, options: { expireAfterSeconds: 3_600 } }],
  },
  {
    name: 'staging.files',
    schema: gridFileDocument,
    indexes: [{ keys: { filename: 1 } }, { keys: { import_id: 1 } }],
  },
  pieces('staging'),
  {
    name: 'uploads.files',
    schema: gridFileDocument,
    indexes: [
      {
        keys: { pinned_by: 1 },
        options: { partialFilterExpression: { 'pinned_by.0': { $exists: true } } },
      },
      { keys: { detached: 1 }, options: { partialFilterExpression: { detached: true } } },
    ],
  },
  pieces('uploads'),
]

function pieces(bucket: string): CollectionDefinition {
  return {
    name: `${bucket}.chunks`,
    schema: gridPieceDocument,
    indexes: [{ keys: { files_id: 1, n: 1 }, options: { unique: true } }],
  }
}

/** A capped collection: old wake-ups are removed by the server, and engines wait at its end with a tailable cursor. */
export const wakeUpCollectionName = 'doorbell'

interface WakeUpDocument {
  reason: string
}

/** Returns the collections of a database, with the types of their documents. */
export function openCollections(db: Db) {
  return {
    schema: db.collection<SchemaDocument>('schema'),
    counters: db.collection<CounterDocument>('counters'),
    installation: db.collection<InstallationDocument>('installation'),
    authFailures: db.collection<AuthFailureDocument>('auth_failures'),
    idempotencyKeys: db.collection<IdempotencyDocument>('idempotency_keys'),
    organizations: db.collection<OrganizationDocument>('organizations'),
    apiKeys: db.collection<ApiKeyDocument>('api_keys'),
    users: db.collection<UserDocument>('users'),
    mailingLists: db.collection<MailingListDocument>('mailing_lists'),
    customFields: db.collection<CustomFieldDocument>('custom_fields'),
    deletedFields: db.collection<DeletedFieldDocument>('deleted_fields'),
    autoresponders: db.collection<AutoresponderDocument>('autoresponders'),
    campaignTemplates: db.collection<CampaignTemplateDocument>('campaign_templates'),
    reactions: db.collection<ReactionDocument>('reactions'),
    outbox: db.collection<OutboxDocument>('outbox'),
    deliveryEvents: db.collection<DeliveryEventDocument>('delivery_events'),
    deliveryMessages: db.collection<DeliveryMessageDocument>('delivery_messages'),
    clickedLinks: db.collection<ClickedLinkDocument>('clicked_links'),
    autoresponderDays: db.collection<AutoresponderDayDocument>('autoresponder_days'),
    bounceCodes: db.collection<BounceCodeDocument>('bounce_codes'),
    deletedSubscribers: db.collection<DeletedSubscriberDocument>('deleted_subscribers'),
    subscribers: db.collection<SubscriberDocument>('subscribers'),
    confirmationForms: db.collection<ConfirmationFormDocument>('confirmation_forms'),
    pendingSubscribers: db.collection<PendingSubscriberDocument>('pending_subscribers'),
    subscriberCounts: db.collection<SubscriberCountDocument>('subscriber_counts'),
    imports: db.collection<ImportDocument>('imports'),
    chunks: db.collection<ChunkDocument>('import_chunks'),
    outcomes: db.collection<OutcomeDocument>('import_outcomes'),
    failures: db.collection<FailureDocument>('import_failures'),
    callbacks: db.collection<CallbackDocument>('import_callbacks'),
    engines: db.collection<EngineDocument>('engines'),
    processes: db.collection<ProcessDocument>('processes'),
    uploadLocks: db.collection<UploadLockDocument>('upload_locks'),
    uploadUsage: db.collection<UploadUsageDocument>('upload_usage'),
    uploadNames: db.collection<UploadNameDocument>('upload_names'),
    settledUploads: db.collection<StableUploadDocument>('settled_uploads'),
    staging: gridBucket(db, 'staging'),
    uploads: gridBucket(db, 'uploads'),
    doorbell: db.collection<WakeUpDocument>(wakeUpCollectionName),
  }
}

const gridBucket = (db: Db, name: string) => ({
  files: db.collection<GridFileDocument>(`${name}.files`),
  pieces: db.collection<GridPieceDocument>(`${name}.chunks`),
})

export type Collections = ReturnType<typeof openCollections>
