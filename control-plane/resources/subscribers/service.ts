import { isDeepStrictEqual } from 'node:util'
import { BSON } from 'mongodb'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { refusal } from '../../api/refusal.ts'
import type { RequestError } from '../../api/request-error.ts'
import { toFieldDefinition } from '../../../shared/contract/schemas/custom-field.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { emailIdentity } from '../../../shared/values/email.ts'
import { fieldReader, type FieldReader } from '../../../shared/values/field-value.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import type { RecordOfPath, RequestCall } from '../../api/endpoint.ts'
import { canAccess, isRemoteList, noMailingList, pathId, refuseRemoteList } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { referenceFilter, type SubscriberReference } from '../../store/subscribers.ts'
import type { FailedWrite, SubscriberPlan } from '../../store/write-subscriber.ts'
import {
  identityExists,
  limitHeldByImports,
  limitReached,
  noSubscriber,
  severalSubscribers,
} from './refusals.ts'
import { fieldFinder } from '../custom-fields/field-finder.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'

/** What the use cases of subscribers share: the list that a path names, the subscriber, and what a failed write means. */

// ---- the list ----

/** What reading, showing and writing a list's subscribers depends on. */
export interface SubscriberList {
  list: MailingListDocument
  /** Sorted by id. */
  fields: readonly FieldReader[]
  fieldNamed: (name: string) => FieldReader | undefined
  /** The field that identifies subscribers; null where the email does. */
  primaryKey: FieldReader | null
  /** IANA name of the organization's zone. */
  zone: string
}

/** The list that a path names. Throws `not_found`, and `invalid_request` for a Remote List. */
export async function findSubscriberList(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<SubscriberList> {
  const found = await listWithContext(deps, pathId(text, noMailingList), caller.organizationId)
  if (found === null || !canAccess(caller, found.list.organization_id)) throw noMailingList(text)
  refuseRemoteList(found.list)
  return found
}

export const subscriberListInPath: RecordOfPath<SubscriberList> = {
  refusals: [noMailingList, isRemoteList],
  find: ({ deps, caller, params }) => findSubscriberList(deps, caller, params['mailing_list_id']),
}

/**
 * A list by its id, without a check of the caller. The zone of `likelyOrganizationId` is read at the same time, as each
 * read that waits for another one is a round trip more.
 */
export async function listWithContext(
  deps: ControlPlane,
  id: number,
  likelyOrganizationId?: number,
): Promise<SubscriberList | null> {
  const [list, likelyZone] = await Promise.all([
    deps.reads.list(id),
    likelyOrganizationId === undefined ? null : deps.reads.timeZone(likelyOrganizationId),
  ])
  if (list === null) return null
  const [{ fields, fieldNamed }, zone] = await Promise.all([
    knownFields(deps, list),
    list.organization_id === likelyOrganizationId && likelyZone !== null
      ? likelyZone
      : deps.reads.timeZone(list.organization_id),
  ])
  const primaryKey = fields.find(({ field }) => field.id === list.primary_key_custom_field_id) ?? null
  return { list, fields, fieldNamed, primaryKey, zone }
}

/** Every change of a list's fields raises the list's revision, so the fields of one revision are read once. */
async function knownFields(
  { reads, fieldCache }: ControlPlane,
  list: MailingListDocument,
): Promise<KnownFields> {
  const entry = fieldCache.get(list._id)
  if (entry?.revision === list.revision) return entry
  const documents = await reads.fields(list._id)
  const fields = documents.map((document) => fieldReader(toFieldDefinition(document), 'mdy'))
  const read = {
    revision: list.revision,
    fields,
    fieldNamed: fieldFinder(fields, ({ field }) => field.name),
    bytes: documents.reduce((sum, document) => sum + BSON.calculateObjectSize(document), entryBytes),
  }
  fieldCache.set(list._id, read)
  return read
}

type KnownFields = Pick<SubscriberList, 'fields' | 'fieldNamed'> & { revision: number; bytes: number }

/** Bounded by bytes, not by lists: with their options, the fields of one list can have 4 MB. A full cache is emptied. */
export class FieldCache {
  static readonly maxBytes = 16 * binaryMegabyte
  readonly #lists = new Map<number, KnownFields>()
  #bytes = 0

  get(listId: number): KnownFields | undefined {
    return this.#lists.get(listId)
  }

  set(listId: number, fields: KnownFields): void {
    this.#bytes += fields.bytes - (this.#lists.get(listId)?.bytes ?? 0)
    if (this.#bytes > FieldCache.maxBytes) {
      this.#lists.clear()
      this.#bytes = fields.bytes
    }
    this.#lists.set(listId, fields)
  }
}

/** An entry takes this much even for a list without fields. */
const entryBytes = 1_024

// ---- the subscriber ----

const idText = /^[1-9]\d{0,15}$/

/** What an id or email in a path names; null when the text is neither. */
export function parseReference(
  list: Pick<MailingListDocument, '_id' | 'primary_key_custom_field_id'>,
  text: string,
): SubscriberReference | null {
  if (idText.test(text))
    return Number.isSafeInteger(Number(text)) ? { listId: list._id, id: Number(text) } : null
  const emailKey = emailIdentity(text.trim())
  if (emailKey === null) return null
  return list.primary_key_custom_field_id === null
    ? subscriberKey(list._id, emailKey)
    : { listId: list._id, emailKey }
}

/** What an id or email in a path names. Throws `not_found` when the text is neither. */
export function requireReference(list: MailingListDocument, text: string): SubscriberReference {
  const reference = parseReference(list, text)
  if (reference === null) throw noSubscriber(text)
  return reference
}

/** The list that a path names, and what its id or email names there. */
export interface NamedSubscriber {
  context: SubscriberList
  reference: SubscriberReference
  /** How the path names the subscriber. */
  text: string
}

/** Throws `not_found`, also for a text that is neither id nor email. The subscriber itself is not looked for. */
export async function readSubscriberPath(call: RequestCall): Promise<NamedSubscriber> {
  const context = await subscriberListInPath.find(call)
  const { id_or_email: text = '' } = call.params
  return { context, reference: requireReference(context.list, text), text }
}

/** A reference that names at most one subscriber. */
export type UniqueReference = string | { listId: number; id: number }

export const isUnique = (reference: SubscriberReference): reference is UniqueReference =>
  typeof reference === 'string' || 'id' in reference

export const findSubscriber = (
  { reads }: ControlPlane,
  reference: UniqueReference,
): Promise<SubscriberDocument | null> =>
  typeof reference === 'string'
    ? reads.subscriber(reference)
    : reads.subscriberById(`${reference.listId}:${reference.id}`)

/**
 * Begins to read the subscriber that the path names before its list is known, so that both take one round trip. It takes
 * the list for one whose subscribers are identified by their email, as most are. Returns what resolves to the subscriber
 * with the reference that the list turned out to have. Call that once the caller may access the list.
 */
export function readAhead({
  deps,
  params,
}: RequestCall): (reference: UniqueReference) => Promise<SubscriberDocument | null> {
  const likelyList = { _id: Number(params['mailing_list_id']), primary_key_custom_field_id: null }
  const likely = Number.isSafeInteger(likelyList._id)
    ? parseReference(likelyList, params['id_or_email'] ?? '')
    : null
  const reading = likely !== null && isUnique(likely) ? findSubscriber(deps, likely) : null
  reading?.catch(() => undefined)
  return (reference) =>
    reading !== null && isDeepStrictEqual(likely, reference) ? reading : findSubscriber(deps, reference)
}

/** Throws `not_found` or `multiple_records_found`, which name the subscriber as the path does. */
export async function refuseUnlessOne(
  { database }: ControlPlane,
  reference: SubscriberReference,
  text: string,
): Promise<void> {
  const found = await database.collections.subscribers
    .find(referenceFilter(reference), { projection: { _id: 1 } })
    .limit(2)
    .toArray()
  if (found.length !== 1) throw writeRefusal(found.length === 0 ? 'missing' : 'several', text)
}

// ---- the write ----

/** The part of a plan that says which list it was made for. */
export const checkedAgainst = ({
  list: { _id: listId, organization_id: organizationId, revision: listRevision },
}: SubscriberList): Pick<SubscriberPlan, 'listId' | 'organizationId' | 'listRevision'> => ({
  listId,
  organizationId,
  listRevision,
})

/** A failed write as the API reports it; `text` is how the request names the subscriber. */
export function writeRefusal(outcome: FailedWrite, text: string): RequestError {
  switch (outcome) {
    case 'missing':
      return noSubscriber(text)
    case 'several':
      return severalSubscribers(text)
    case 'identity_exists':
      return identityExists()
    case 'over_limit':
      return limitReached()
    case 'busy':
      return limitHeldByImports()
    case 'outdated':
      return listKeepsChanging()
  }
}

const listKeepsChanging = refusal(
  { code: 'internal_error', status: 503, retryAfter: 1 },
  'the mailing list is being changed all the time: try again in a moment',
)
