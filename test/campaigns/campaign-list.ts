import { IdAllocators } from '../../shared/runtime/id-allocator.ts'
import { toFieldDefinition } from '../../shared/contract/schemas/custom-field.ts'
import { subscriberStatuses, type SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import type { Json, Service } from '../helpers/service.ts'
import { readFieldCell } from '../model/cells.ts'
import { emailKey } from '../model/email-address.ts'
import { identityOf } from '../model/rows.ts'
import type { ModelledList } from '../model/subscriber-table.ts'
import { storedKeys, storedValue } from './made-cell.ts'
import { timeZones, type MadeList } from './made-list.ts'
import type { Random } from './random.ts'

/** Lists of the campaign in the service, with subscribers that no import brought. */
export interface CampaignList {
  made: MadeList
  model: ModelledList
  id: number
  organizationId: number
}

export async function createOrganizations(service: Service): Promise<Map<string, number>> {
  const ids = new Map<string, number>()
  for (const timeZone of timeZones) ids.set(timeZone, await createOrganization(service, timeZone, timeZone))
  return ids
}

async function createOrganization(service: Service, name: string, timeZone: string): Promise<number> {
  const organization = { name, time_zone_name: timeZone }
  const { id } = await service.post('/organizations', { organization })
  return id
}

export interface ListContext {
  service: Service
  /** Organization ids by time zone. */
  organizations: Map<string, number>
}

export async function createList(
  made: MadeList,
  name: string,
  { service, organizations }: ListContext,
): Promise<CampaignList> {
  const organizationId = made.hasLimit
    ? await createOrganization(service, `Organization of ${name}`, made.timeZone)
    : organizations.get(made.timeZone)!
  const { id } = await service.post('/mailing_lists', {
    mailing_list: {
      name,
      organization_id: organizationId,
      has_format: made.hasFormat,
      has_confirmed: made.hasConfirmed,
    },
  })
  for (const field of made.fields)
    await service.post(`/mailing_lists/${id}/custom_fields`, { custom_field: field })
  const documents = await service.collections.customFields
    .find({ mailing_list_id: id })
    .sort({ _id: 1 })
    .toArray()
  const fields = documents.map(toFieldDefinition)
  const primaryKey = fields.find(({ name }) => name === made.primaryKey) ?? null
  if (primaryKey !== null)
    await service.call('PUT', `/mailing_lists/${id}`, {
      mailing_list: { primary_key_custom_field_id: primaryKey.id },
    })
  const model = {
    hasFormat: made.hasFormat,
    hasConfirmed: made.hasConfirmed,
    fields,
    primaryKey,
    timeZone: made.timeZone,
  }
  return { made, model, id, organizationId }
}

/** The subscribers of the list, by the identity as a cell, in the same order in each run. */
export async function identitiesIn({ id, model }: CampaignList, service: Service): Promise<string[]> {
  const { primaryKey } = model
  const documents = await service.collections.subscribers
    .find({ mailing_list_id: id })
    .sort({ _id: 1 })
    .toArray()
  return documents.map(({ email, custom_fields: values }) =>
    primaryKey === null ? email : String(values[primaryKey.id]),
  )
}

/** Subscribers that no import brought. Requests create a third of them, where the API accepts their values. */
export async function insertSubscribers(list: CampaignList, service: Service, random: Random): Promise<void> {
  const { subscribers } = service.collections
  const there = new Set(
    (await subscribers.find({ mailing_list_id: list.id }, { projection: { _id: 1 } }).toArray()).map(
      ({ _id }) => _id,
    ),
  )
  const documents = new Map<string, SubscriberDocument>()
  for (const stored of storedKeys(list.made, random)) {
    const document = storedSubscriber(list, stored, random)
    if (document !== null && !there.has(document._id)) documents.set(document._id, document)
  }
  const isWhole = ({ custom_fields: values }: SubscriberDocument) =>
    list.model.fields.every(({ id, required }) => !required || values[id] !== undefined)
  const requested = random.some([...documents.values()].filter(isWhole), 0.35)
  // The next import sets the limit anew.
  if (list.made.hasLimit) await putLimit(list, service, null)
  for (const document of requested) documents.delete(document._id)
  await Promise.all(
    requested.map((document) =>
      service.post(`/mailing_lists/${list.id}/subscribers`, { subscriber: asRequested(document, list) }),
    ),
  )
  await storeSubscribers([...documents.values()], list, service)
}

function asRequested(document: SubscriberDocument, { model }: CampaignList): Json {
  const time = (moment: Date | undefined) => moment?.toISOString().replace('.000', '')
  return {
    email: document.email,
    status: document.status,
    subscribe_time: time(document.subscribe_time),
    subscribe_ip: document.subscribe_ip,
    remove_time: time(document.remove_time),
    remove_ip: document.remove_ip,
    email_format: document.format,
    confirmed: document.confirmed,
    confirm_time: time(document.confirm_time),
    custom_fields: Object.fromEntries(model.fields.map(({ id, name }) => [name, document.custom_fields[id]])),
  }
}

/** Inserts directly, as the API gives every subscriber a whole record, and adds them to the counters. */
async function storeSubscribers(
  all: SubscriberDocument[],
  list: CampaignList,
  service: Service,
): Promise<void> {
  if (all.length === 0) return
  const { subscribers, subscriberCounts } = service.collections
  const firstId = await new IdAllocators(service.collections).allocate('subscriber', all.length)
  all.forEach((document, i) => (document.id = firstId + i))
  await subscribers.insertMany(all)
  await subscriberCounts.updateOne(
    { _id: `${list.id}:0` },
    {
      $setOnInsert: { organization_id: list.organizationId, mailing_list_id: list.id },
      $inc: Object.fromEntries(
        subscriberStatuses.map((status) => [
          status,
          all.filter((document) => document.status === status).length,
        ]),
      ),
    },
    { upsert: true },
  )
}

function storedSubscriber(
  list: CampaignList,
  stored: { email: string; key: string | null },
  random: Random,
): SubscriberDocument | null {
  const { primaryKey, fields, hasFormat, hasConfirmed } = list.model
  const key = primaryKey && stored.key ? readFieldCell(stored.key, primaryKey, 'mdy') : null
  const identity = primaryKey === null ? emailKey(stored.email) : key === null ? null : identityOf(key)
  if (identity === null) return null
  const values: SubscriberDocument['custom_fields'] = {}
  fields.forEach((field, i) => {
    const value = field === primaryKey ? key : storedValue(list.made.fields[i]!, random)
    if (value !== null) values[String(field.id)] = value
  })
  const status = random.chance(0.5) ? 'active' : random.oneOf(subscriberStatuses)
  const moment = () => new Date(Date.UTC(2020, random.between(0, 11), random.between(1, 28), 1, 2, 3))
  const confirmed = hasConfirmed && random.chance(0.4)
  const saysConfirmed = hasConfirmed && random.chance(0.8)
  const hasRemoval = status !== 'active' && random.chance(0.8)
  return {
    _id: `${list.id}:${identity}`,
    id: 0, // given when it is inserted
    mailing_list_id: list.id,
    email: stored.email,
    ...(primaryKey === null ? {} : { email_key: emailKey(stored.email)! }),
    status,
    created_at: moment(),
    subscribe_time: moment(),
    ...(random.chance(0.4) ? { subscribe_ip: '192.0.2.1' } : {}),
    ...(hasRemoval ? { remove_time: moment() } : {}),
    ...(hasRemoval && random.chance(0.5) ? { remove_ip: '192.0.2.2' } : {}),
    ...(hasFormat && random.chance(0.7) ? { format: random.oneOf(['html', 'text', 'both'] as const) } : {}),
    ...(saysConfirmed ? { confirmed } : {}),
    ...(saysConfirmed && confirmed && random.chance(0.8) ? { confirm_time: moment() } : {}),
    custom_fields: values,
  }
}

/** A limit near the organization's number of active subscribers, and the quota that it leaves. */
export async function setLimit(list: CampaignList, service: Service, random: Random): Promise<number> {
  const active = await service.collections.subscribers.countDocuments({
    mailing_list_id: list.id,
    status: 'active',
  })
  const limit = Math.max(0, active + random.between(-2, 8))
  await putLimit(list, service, limit)
  return limit - active
}

async function putLimit(list: CampaignList, service: Service, limit: number | null): Promise<void> {
  const path = `/organizations/${list.organizationId}`
  await service.call('PUT', path, { organization: { subscriber_limit: limit } })
}
