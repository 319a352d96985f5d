import { BSON } from 'mongodb'
import type { Caller } from '../../../shared/store/api-keys.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import { toFieldDefinition } from '../../../shared/contract/schemas/custom-field.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberAddress } from '../../store/subscribers.ts'
import { fieldReader, type FieldReader } from '../../../shared/values/field-value.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import { batchedRead } from '../../api/batched-read.ts'
import { missing, pathId, reaches, refuseRemoteList } from '../../api/scope.ts'
import { singleFlight } from '../../api/single-flight.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { fieldFinder } from '../custom-fields/field-finder.ts'

/** What reading, showing and writing a list's subscribers depends on. */
export interface SubscriberList {
  list: MailingListDocument
  /** By id. */
  fields: readonly FieldReader[]
  fieldNamed: (name: string) => FieldReader | undefined
  /** The field that tells subscribers apart; null where the email does. */
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
  const found = await listWithContext(deps.database, pathId(text, 'mailing list'))
  if (found === null || !reaches(caller, found.list.organization_id)) throw missing('mailing list', text)
  refuseRemoteList(found.list)
  return found
}

/** A list by its id, whoever asks. */
export async function listWithContext(database: Database, id: number): Promise<SubscriberList | null> {
  const list = await listById(database, id)
  if (list === null) return null
  const [{ fields, fieldNamed }, zone] = await Promise.all([
    fieldsOf(database, list),
    zoneOfOrganization(database, list.organization_id),
  ])
  const primaryKey = fields.find(({ field }) => field.id === list.primary_key_custom_field_id) ?? null
  return { list, fields, fieldNamed, primaryKey, zone: zone ?? 'UTC' }
}

const listById = batchedRead(async ({ collections }: Database, ids: number[]) => {
  const lists = await collections.mailingLists.find({ _id: { $in: ids } }).toArray()
  return new Map(lists.map((list) => [list._id, list]))
})

const zoneOfOrganization = batchedRead(async ({ collections }: Database, ids: number[]) => {
  const organizations = await collections.organizations
    .find({ _id: { $in: ids } }, { projection: { time_zone_name: 1 } })
    .toArray()
  return new Map(organizations.map(({ _id, time_zone_name: zone }) => [_id, zone]))
})

/** Every change of a list's fields raises the list's revision, so fields are read once for each of them. */
const readFields = singleFlight(({ collections }: Database, listId: number) =>
  collections.customFields.find({ mailing_list_id: listId }).sort({ _id: 1 }).toArray(),
)
type KnownFields = Pick<SubscriberList, 'fields' | 'fieldNamed'> & { revision: number }

/** The fields of the lists that were last asked for. Options make definitions large: 4 MB of a list at most. */
class FieldCache {
  static readonly maxBytes = 16 * 1024 * 1024
  readonly #lists = new Map<number, KnownFields>()
  #bytes = 0

  get(listId: number): KnownFields | undefined {
    return this.#lists.get(listId)
  }

  set(listId: number, fields: KnownFields, bytes: number): void {
    if (this.#bytes + bytes > FieldCache.maxBytes) {
      this.#lists.clear()
      this.#bytes = 0
    }
    this.#bytes += bytes
    this.#lists.set(listId, fields)
  }
}
const caches = new WeakMap<Database, FieldCache>()
/** A list without fields takes that, too. */
const entryBytes = 1_024

async function fieldsOf(database: Database, list: MailingListDocument): Promise<KnownFields> {
  const cache = caches.get(database) ?? new FieldCache()
  caches.set(database, cache)
  const entry = cache.get(list._id)
  if (entry?.revision === list.revision) return entry
  const documents = await readFields(database, list._id)
  const fields = documents.map((document) => fieldReader(toFieldDefinition(document), 'mdy'))
  const read = {
    revision: list.revision,
    fields,
    fieldNamed: fieldFinder(fields, ({ field }) => field.name),
  }
  const bytes = documents.reduce((sum, document) => sum + BSON.calculateObjectSize(document), entryBytes)
  cache.set(list._id, read, bytes)
  return read
}

/** Where the subscribers with an email are: one at most where the email is the identity, else any number. */
export function addressOfEmail(
  { _id: listId, primary_key_custom_field_id: primaryKeyId }: MailingListDocument,
  emailKey: string,
): SubscriberAddress {
  return primaryKeyId === null ? subscriberKey(listId, emailKey) : { listId, emailKey }
}
