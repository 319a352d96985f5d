import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { nextIds } from '../../shared/database.ts'
import { toFieldDefinition, type FieldDefinition } from '../../shared/schemas/custom-field.ts'
import { subscriberStatuses, type SubscriberDocument } from '../../shared/schemas/subscriber.ts'
import type { Json, Service } from '../helpers/service.ts'
import { emailKey } from '../model/email-address.ts'
import { expectedEnd } from '../model/import-model.ts'
import { readFieldCell } from '../model/cells.ts'
import { identityOf } from '../model/rows.ts'
import type { ModelledList } from '../model/subscriber-table.ts'
import { differencesOf } from './differences.ts'
import { storedKeys, storedValue } from './made-cell.ts'
import { madeImport, type MadeImport } from './made-import.ts'
import { madeList, timeZones, type MadeList } from './made-list.ts'
import { ImportEnds, observe, tableOf } from './observed-end.ts'
import { Random } from './random.ts'

/**
 * The differential campaign: the same lists, files and options through the service and through the model in
 * test/model, then their ends side by side. List number n of a seed is always the same; its imports follow each other.
 */
export interface Campaign {
  service: Service
  seed: number
  /** Imports in all. */
  cases: number
  /** Lists at once. */
  lanes: number
  /** Lists on which each import stands before a subscriber limit. */
  limitShare: number
  /** Alone this list. */
  onlyList?: number
  report: (mismatch: string) => void
}

export interface CampaignResult {
  cases: number
  mismatches: number
  results: Record<string, number>
}

const mostImportsOfList = 6

export async function runCampaign(campaign: Campaign): Promise<CampaignResult> {
  const surroundings = {
    ...campaign,
    organizations: await createOrganizations(campaign.service),
    ends: new ImportEnds(campaign.service),
  }
  const result: CampaignResult = { cases: 0, mismatches: 0, results: {} }
  let nextList = campaign.onlyList ?? 0
  const lane = async () => {
    while (
      result.cases < campaign.cases &&
      (campaign.onlyList === undefined || nextList === campaign.onlyList)
    )
      await runList(nextList++, surroundings, result)
  }
  await Promise.all(Array.from({ length: campaign.onlyList === undefined ? campaign.lanes : 1 }, lane))
  return result
}

type Surroundings = Campaign & { organizations: Map<string, number>; ends: ImportEnds }

async function createOrganizations(service: Service): Promise<Map<string, number>> {
  const ids = new Map<string, number>()
  for (const timeZone of timeZones) ids.set(timeZone, await createOrganization(service, timeZone, timeZone))
  return ids
}

async function createOrganization(service: Service, name: string, timeZone: string): Promise<number> {
  const organization = { name, time_zone_name: timeZone }
  const { id } = await service.post('/organizations', { organization })
  await mkdir(path.join(service.dataFolder, 'uploads', String(id)), { recursive: true })
  return id
}

interface CampaignList {
  made: MadeList
  model: ModelledList
  id: number
  organizationId: number
  hasLimit: boolean
}

async function runList(number: number, around: Surroundings, result: CampaignResult): Promise<void> {
  const random = new Random(around.seed * 1_000_003 + number)
  const list = await createList(madeList(random), number, around, random)
  const imports = random.between(1, mostImportsOfList)
  for (let turn = 0; turn < imports && result.cases < around.cases; turn += 1) {
    if (turn === 0 || random.chance(0.2)) await insertSubscribers(list, around.service, random)
    result.cases += 1
    const made = madeImport(list.made, random)
    const differences = await compareEnds(made, list, around, random, result)
    if (differences.length === 0) continue
    result.mismatches += 1
    around.report(
      mismatchText(`seed ${around.seed}, list ${number}, import ${turn}`, list, made, differences),
    )
    // What follows would only differ because of this.
    return
  }
}

async function createList(
  made: MadeList,
  number: number,
  { service, organizations, limitShare }: Surroundings,
  random: Random,
): Promise<CampaignList> {
  const hasLimit = random.chance(limitShare)
  const organizationId = hasLimit
    ? await createOrganization(service, `Organization of list ${number}`, made.timeZone)
    : organizations.get(made.timeZone)!
  const { id } = await service.post('/mailing_lists', {
    mailing_list: {
      name: `List ${number}`,
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
  return { made, model, id, organizationId, hasLimit }
}

/** Subscribers that no import brought, with what matches them in the counters. */
async function insertSubscribers(list: CampaignList, service: Service, random: Random): Promise<void> {
  const { subscribers, subscriberCounts } = service.collections
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
  if (documents.size === 0) return
  const all = [...documents.values()]
  const firstId = await nextIds(service.collections, 'subscriber', all.length)
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
  const hasRemoval = random.chance(status === 'active' ? 0.1 : 0.8)
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
    ...(hasConfirmed && random.chance(0.8) ? { confirmed } : {}),
    ...(confirmed && random.chance(0.8) ? { confirm_time: moment() } : {}),
    custom_fields: values,
  }
}

async function compareEnds(
  made: MadeImport,
  list: CampaignList,
  around: Surroundings,
  random: Random,
  result: CampaignResult,
): Promise<string[]> {
  const { service, ends } = around
  const documents = await service.collections.subscribers.find({ mailing_list_id: list.id }).toArray()
  const existing = tableOf(documents, list.model.fields)
  const places = list.hasLimit ? await setLimit(list, service, random) : null
  const expected = expectedEnd({ ...made, list: list.model, existing, places })
  const from = new Date()
  const created = await createImport(made, list, service)
  if (created.success !== true) return [`the creation was refused: ${created.error_message}`]
  await ends.of(created.data.id)
  const to = new Date()
  const observed = await observe(service, created.data.id, {
    listId: list.id,
    fields: list.model.fields,
    format: { ...made.options.file_format, ...(made.isInline ? { character_set: 'utf-8' as const } : {}) },
    hasPrimaryKey: list.model.primaryKey !== null,
  })
  for (const [kind, count] of Object.entries({ ...expected.counts, [expected.state]: 1 }))
    result.results[kind] = (result.results[kind] ?? 0) + count
  return differencesOf(expected, observed, { from, to })
}

/** A limit near what the organization has; how many places that leaves. */
async function setLimit(list: CampaignList, service: Service, random: Random): Promise<number> {
  const active = await service.collections.subscribers.countDocuments({
    mailing_list_id: list.id,
    status: 'active',
  })
  const places = random.between(-2, 8)
  await service.call('PUT', `/organizations/${list.organizationId}`, {
    organization: { subscriber_limit: Math.max(0, active + places) },
  })
  return Math.max(0, active + places) - active
}

let uploads = 0

async function createImport(made: MadeImport, list: CampaignList, service: Service): Promise<Json> {
  let source: Json
  if (made.isInline) source = { type: 'json', content: Buffer.from(made.bytes).toString('utf8') }
  else {
    const filename = `file-${(uploads += 1)}.csv`
    const folder = path.join(service.dataFolder, 'uploads', String(list.organizationId))
    await writeFile(path.join(folder, filename), made.bytes)
    source = { type: 'upload_directory', filename }
  }
  const answer = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { ...made.options, file_source: source },
  })
  return answer.body
}

function mismatchText(where: string, list: CampaignList, made: MadeImport, differences: string[]): string {
  const { options } = made
  const file = Buffer.from(made.bytes).toString('latin1')
  const isText = made.isInline
  return [
    `${where} (${made.isInline ? 'inline' : 'uploaded'})`,
    ...differences.slice(0, 6).map((difference) => `  ${difference}`),
    ...(differences.length > 6 ? [`  and ${differences.length - 6} more`] : []),
    `  zone ${list.model.timeZone}, key ${list.made.primaryKey}, fields ${JSON.stringify(list.made.fields.map(fieldText))}`,
    `  options ${JSON.stringify(options)}`,
    `  file ${JSON.stringify((isText ? Buffer.from(made.bytes).toString('utf8') : file).slice(0, 6000))}`,
  ].join('\n')
}

function fieldText(field: MadeList['fields'][number]): Partial<FieldDefinition> {
  return Object.fromEntries(
    Object.entries(field).filter(
      ([, value]) => value !== null && value !== false && !(Array.isArray(value) && value.length === 0),
    ),
  )
}
