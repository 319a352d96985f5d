import type { CreateIndexesOptions, Document } from 'mongodb'
import type { z } from 'zod'
import { apiKeyDocument } from './api-key.ts'
import { auditDays, auditEventDocument } from './audit-event.ts'
import { autoresponderTargets } from './autoresponder.ts'
import { autoresponderDocument, reactionDocument } from './autoresponder-schema.ts'
import {
  authFailureDocument,
  counterDocument,
  deletedFieldDocument,
  idempotencyDocument,
  installationDocument,
} from './bookkeeping.ts'
import { callbackDays } from './callback.ts'
import { callbackDocument } from './callback-schema.ts'
import { campaignTemplateDocument } from './campaign-template.ts'
import { confirmationFormDocument, pendingSubscriberDocument } from './confirmation.ts'
import { customFieldDocument } from './custom-field-schema.ts'
import {
  autoresponderDayDocument,
  bounceCodeDocument,
  clickedLinkDocument,
  deliveryEventDocument,
  deliveryMessageDocument,
} from './delivery.ts'
import { engineDocument, processDocument } from './registration.ts'
import { chunkDocument, failureDocument, importDocument, outcomeDocument } from './import-schema.ts'
import { mailingListDocument } from './mailing-list.ts'
import { organizationDocument } from './organization.ts'
import { schemaDocument } from './schema-version.ts'
import {
  deletedSubscriberDocument,
  subscriberCountDocument,
  subscriberDocument,
} from './subscriber-schema.ts'
import { blobPieceDocument, ledgerDocument, uploadDocument } from './upload.ts'
import { userDocument } from './user.ts'
import {
  collectionNames,
  unpurgedIndex,
  lockedListsIndex,
  notFinalizedIndex,
  waitingOfListIndex,
  waitingDryRunsIndex,
  endedIndex,
  newestOfListIndex,
  queuedIndex,
  leasedIndex,
  reactionsIndex,
  callbacksIndex,
  limitChangeIndex,
  blobAgeIndex,
  reservedQuotaIndex,
} from './collections.ts'

export interface CollectionDefinition<Schema extends z.ZodType<Document> = z.ZodType<Document>> {
  schema: Schema
  /** Besides that on `_id`. */
  indexes: { keys: Readonly<Record<string, number>>; options?: CreateIndexesOptions }[]
}

/** The schema of each collection's documents, and its indexes. */
const definitions = {
  schema: collection(schemaDocument),
  counters: collection(counterDocument),
  installation: collection(installationDocument),
  authFailures: collection(authFailureDocument, [{ keys: { until: 1 }, options: { expireAfterSeconds: 0 } }]),
  idempotencyKeys: collection(idempotencyDocument, [
    { keys: { expires_at: 1 }, options: { expireAfterSeconds: 0 } },
  ]),
  organizations: collection(organizationDocument, [{ keys: limitChangeIndex, options: { sparse: true } }]),
  apiKeys: collection(apiKeyDocument, [
    { keys: { key_hash: 1 }, options: { unique: true } },
    { keys: { organization_id: 1, _id: 1 } },
    { keys: { user_id: 1 } },
  ]),
  auditEvents: collection(auditEventDocument, [
    { keys: { organization_id: 1, _id: -1 } },
    { keys: { organization_id: 1, record_id: 1, _id: -1 } },
    { keys: { occurred_at: 1 }, options: { expireAfterSeconds: auditDays * 24 * 3_600 } },
  ]),
  users: collection(userDocument, [
    { keys: { email_key: 1 }, options: { unique: true } },
    { keys: { organization_id: 1, _id: 1 } },
    { keys: { full_name_key: 1, _id: 1 } },
    { keys: { role: 1, active: 1 } },
  ]),
  mailingLists: collection(mailingListDocument, [
    { keys: { organization_id: 1, name_key: 1 }, options: { unique: true } },
  ]),
  customFields: collection(customFieldDocument, [
    { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
  ]),
  deletedFields: collection(deletedFieldDocument),
  autoresponders: collection(autoresponderDocument, [
    { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
    // Autoresponders that another autoresponder's mail triggers. Few have such a target, so the index is partial.
    ...autoresponderTargets.map((target) => ({
      keys: { [target]: 1 },
      options: { partialFilterExpression: { [target]: { $gt: 0 } } },
    })),
    { keys: { organization_id: 1 } },
  ]),
  campaignTemplates: collection(campaignTemplateDocument, [
    { keys: { mailing_list_id: 1, name_key: 1 }, options: { unique: true } },
    { keys: { organization_id: 1, _id: 1 } },
  ]),
  reactions: collection(reactionDocument, [
    { keys: reactionsIndex },
    { keys: queuedIndex, options: { partialFilterExpression: { state: 'queued' } } },
    { keys: leasedIndex, options: { partialFilterExpression: { 'lease.token': { $exists: true } } } },
  ]),
  deliveryEvents: collection(deliveryEventDocument),
  deliveryMessages: collection(deliveryMessageDocument),
  clickedLinks: collection(clickedLinkDocument),
  autoresponderDays: collection(autoresponderDayDocument),
  bounceCodes: collection(bounceCodeDocument),
  deletedSubscribers: collection(deletedSubscriberDocument),
  subscribers: collection(subscriberDocument, [
    // For reads by id and all kinds of paging. Ids from the counter are unique anyway; a unique index would cost the
    // server 5 us a row.
    { keys: { mailing_list_id: 1, id: 1 } },
    {
      // Only for lists with an alternate primary key; on other lists `_id` contains the email.
      keys: { mailing_list_id: 1, email_key: 1, id: 1 },
      options: { partialFilterExpression: { email_key: { $exists: true } } },
    },
  ]),
  confirmationForms: collection(confirmationFormDocument, [{ keys: { mailing_list_id: 1, _id: 1 } }]),
  pendingSubscribers: collection(pendingSubscriberDocument, [
    { keys: { token: 1 }, options: { unique: true } },
    { keys: { expires_at: 1 }, options: { expireAfterSeconds: 0 } },
  ]),
  subscriberCounts: collection(subscriberCountDocument, [
    { keys: { organization_id: 1, mailing_list_id: 1 } },
    { keys: { mailing_list_id: 1 } },
  ]),
  imports: collection(importDocument, [
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
  chunks: collection(chunkDocument, [
    { keys: { import_id: 1, state: 1, number: 1 } },
    { keys: { state: 1, 'lease.holder': 1 } },
    // Chunks with a reservation under a subscriber limit: few, and none where there is no limit.
    {
      keys: { organization_id: 1 },
      options: { name: reservedQuotaIndex, partialFilterExpression: { quota_reserved: { $gt: 0 } } },
    },
  ]),
  outcomes: collection(outcomeDocument),
  failures: collection(failureDocument),
  callbacks: collection(callbackDocument, [
    { keys: callbacksIndex, options: { partialFilterExpression: { state: 'waiting' } } },
    { keys: { ended_at: 1 }, options: { expireAfterSeconds: callbackDays * 24 * 3_600 } },
  ]),
  engines: collection(engineDocument, [{ keys: { number: 1 }, options: { unique: true } }]),
  processes: collection(processDocument),
  uploads: collection(uploadDocument, [
    {
      keys: { organization_id: 1, name: 1, state: 1 },
      options: { unique: true, partialFilterExpression: { state: { $in: ['finished', 'unfinished'] } } },
    },
    { keys: { blob: 1 } },
    { keys: { state: 1 }, options: { partialFilterExpression: { state: 'unfinished' } } },
    { keys: { pinned_by: 1 }, options: { partialFilterExpression: { 'pinned_by.0': { $exists: true } } } },
  ]),
  ledgers: collection(ledgerDocument),
  blobPieces: collection(blobPieceDocument, [
    { keys: { blob: 1, n: 1 }, options: { unique: true } },
    { keys: blobAgeIndex },
  ]),
} satisfies Record<keyof typeof collectionNames, CollectionDefinition>
export type CollectionDefinitions = typeof definitions

function collection<Schema extends z.ZodType<Document>>(
  schema: Schema,
  indexes: CollectionDefinition['indexes'] = [],
): CollectionDefinition<Schema> {
  return { schema, indexes }
}

/** All of them, with the names of their collections. */
export const collectionDefinitions = Object.entries(collectionNames).map(([key, name]) => ({
  name,
  ...(definitions as Record<string, CollectionDefinition>)[key]!,
}))
