import type { Caller } from '../../../shared/api-keys.ts'
import type { Database } from '../../../shared/database.ts'
import { toFieldDefinition } from '../../../shared/schemas/custom-field.ts'
import type { MailingListDocument } from '../../../shared/schemas/mailing-list.ts'
import { fieldReader, type FieldReader } from '../../../shared/values/field-value.ts'
import { comparisonForm, subscriberKey } from '../../../shared/values/identity.ts'
import type { SubscriberAddress } from '../../../shared/store/subscribers.ts'
import { missing, pathId, reaches, refuseRemoteList } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** What reading, showing and writing a list's subscribers depends on. */
export interface SubscriberList {
  list: MailingListDocument
  /** By id. */
  fields: readonly FieldReader[]
  /** The field that tells subscribers apart; null where the email does. */
  primaryKey: FieldReader | null
  /** IANA name of the organization's zone. */
  zone: string
}

export async function findSubscriberList(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<SubscriberList> {
  const id = pathId(text, 'mailing list')
  const { database } = deps
  const { mailingLists, organizations } = database.collections
  const zoneOf = async (organizationId: number) =>
    (await organizations.findOne({ _id: organizationId }, { projection: { time_zone_name: 1 } }))
      ?.time_zone_name
  // Nearly always the list is the caller's own organization's.
  const [list, callersZone] = await Promise.all([
    mailingLists.findOne({ _id: id }),
    zoneOf(caller.organizationId),
  ])
  if (list === null || !reaches(caller, list.organization_id)) throw missing('mailing list', text)
  refuseRemoteList(list)
  const [fields, zone] = await Promise.all([
    fieldsOf(database, list),
    list.organization_id === caller.organizationId ? callersZone : zoneOf(list.organization_id),
  ])
  const primaryKey = fields.find(({ field }) => field.id === list.primary_key_custom_field_id) ?? null
  return { list, fields, primaryKey, zone: zone ?? 'UTC' }
}

/** Every change of a list's fields raises the list's revision, so fields are read once for each of them. */
const knownFields = new WeakMap<Database, Map<number, { revision: number; fields: FieldReader[] }>>()
const mostKnownLists = 1_000

async function fieldsOf(database: Database, list: MailingListDocument): Promise<FieldReader[]> {
  const known = knownFields.get(database) ?? new Map<number, { revision: number; fields: FieldReader[] }>()
  knownFields.set(database, known)
  const entry = known.get(list._id)
  if (entry?.revision === list.revision) return entry.fields
  const documents = await database.collections.customFields
    .find({ mailing_list_id: list._id })
    .sort({ _id: 1 })
    .toArray()
  const fields = documents.map((document) => fieldReader(toFieldDefinition(document), 'mdy'))
  if (known.size >= mostKnownLists) known.clear()
  known.set(list._id, { revision: list.revision, fields })
  return fields
}

/** Custom fields match exactly first, then without case. */
export function fieldNamed(name: string, { fields }: SubscriberList): FieldReader | undefined {
  return (
    fields.find(({ field }) => field.name === name) ??
    fields.find(({ field }) => comparisonForm(field.name) === comparisonForm(name))
  )
}

/** Where the subscribers with an email are: one at most where the email is the identity, else any number. */
export function addressOfEmail(
  { _id: listId, primary_key_custom_field_id: primaryKeyId }: MailingListDocument,
  emailKey: string,
): SubscriberAddress {
  return primaryKeyId === null ? subscriberKey(listId, emailKey) : { listId, emailKey }
}
