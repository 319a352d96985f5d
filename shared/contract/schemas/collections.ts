import type { Collection, Db } from 'mongodb'
import type { z } from 'zod'
import type { CollectionDefinitions } from './collection-definitions.ts'

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

/** Names of collections, by their names in code. */
export const collectionNames = {
  schema: 'schema',
  counters: 'counters',
  installation: 'installation',
  authFailures: 'auth_failures',
  idempotencyKeys: 'idempotency_keys',
  organizations: 'organizations',
  apiKeys: 'api_keys',
  auditEvents: 'audit_events',
  users: 'users',
  mailingLists: 'mailing_lists',
  customFields: 'custom_fields',
  deletedFields: 'deleted_fields',
  autoresponders: 'autoresponders',
  campaignTemplates: 'campaign_templates',
  reactions: 'reactions',
  deliveryEvents: 'delivery_events',
  deliveryMessages: 'delivery_messages',
  clickedLinks: 'clicked_links',
  autoresponderDays: 'autoresponder_days',
  bounceCodes: 'bounce_codes',
  deletedSubscribers: 'deleted_subscribers',
  subscribers: 'subscribers',
  confirmationForms: 'confirmation_forms',
  pendingSubscribers: 'pending_subscribers',
  subscriberCounts: 'subscriber_counts',
  imports: 'imports',
  chunks: 'import_chunks',
  outcomes: 'import_outcomes',
  failures: 'import_failures',
  callbacks: 'import_callbacks',
  engines: 'engines',
  processes: 'processes',
  uploads: 'uploads',
  ledgers: 'ledgers',
  blobPieces: 'blob_pieces',
} as const

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

/** Returns the collections of a database, with the types of their documents. It loads no schema. */
export function openCollections(db: Db) {
  const opened = Object.entries(collectionNames).map(([key, name]) => [key, db.collection(name)])
  return {
    ...(Object.fromEntries(opened) as Opened),
    wakeUps: db.collection<WakeUpDocument>(wakeUpCollectionName),
  }
}

type Opened = {
  [Key in keyof CollectionDefinitions]: Collection<z.infer<CollectionDefinitions[Key]['schema']>>
}

export type Collections = ReturnType<typeof openCollections>
