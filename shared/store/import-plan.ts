import { ImportError } from '../contract/errors.ts'
import { delayProjection, type AutoresponderDocument } from '../contract/schemas/autoresponder.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import { toFieldDefinition, type FieldDefinition } from '../contract/schemas/custom-field.ts'
import {
  builtInColumns,
  type ImportDocument,
  type ImportPlan,
  type PlannedColumn,
} from '../contract/schemas/import.ts'
import { fieldReader } from '../values/field-value.ts'
import { read, readTogether } from './read-together.ts'
import { readListCounts } from './subscriber-counts.ts'

type ImportToPlan = Pick<ImportDocument, 'organization_id' | 'mailing_list_id' | 'options' | 'field_ids'>

/**
 * Fixes all that reading and writing the rows depends on, when the import begins. Throws an ImportError when its
 * column mapping no longer fits the list, which may have changed since the import was created.
 */
export async function makePlan(collections: Collections, document: ImportToPlan): Promise<ImportPlan> {
  const listId = document.mailing_list_id
  const ofList = { $match: { mailing_list_id: listId } }
  const [found, counts] = await Promise.all([
    readTogether({
      lists: read(collections.mailingLists, [{ $match: { _id: listId } }]),
      organizations: read(collections.organizations, [{ $match: { _id: document.organization_id } }]),
      fields: read(collections.customFields, [ofList, { $sort: { _id: 1 } }]),
      subscribers: read(collections.subscribers, [ofList, { $limit: 1 }, { $project: { _id: 1 } }]),
      autoresponders: read<AutoresponderDocument, PlannedAutoresponder>(collections.autoresponders, [
        ofList,
        { $sort: { _id: 1 } },
        { $project: plannedAutoresponder },
      ]),
    }),
    document.options.deactivate_subscribers_not_in_import ? readListCounts(collections, listId) : null,
  ])
  const [list] = found.lists
  const [organization] = found.organizations
  if (list === undefined || organization === undefined)
    throw new ImportError('plan_invalid', `mailing list ${listId} no longer exists`)
  const fields = found.fields.map(toFieldDefinition)
  const columns = document.options.column_mapping.map((name) => planColumn(name, document, fields))
  return {
    time_zone_name: organization.time_zone_name,
    has_format: list.has_format,
    has_confirmed: list.has_confirmed,
    identity: planIdentity(list.primary_key_custom_field_id, columns, fields),
    columns,
    fields,
    default_values: Object.fromEntries(
      Object.entries(document.options.default_custom_fields).map(([name, value]) => {
        const field = fieldNamed(name, document, fields)
        // As the field spells it now. A value that it doesn't allow any more fails the rows that would get it.
        return [
          field.id,
          fieldReader(field, document.options.file_format.date_format).fromJson(value) ?? value,
        ]
      }),
    ),
    reactions: planReactions(document, found.autoresponders),
    active_at_start: counts?.active ?? 0,
    has_subscriber_limit: (organization.subscriber_limit ?? null) !== null,
    list_was_empty: found.subscribers.length === 0,
  }
}

function planColumn(name: string | null, document: ImportToPlan, fields: FieldDefinition[]): PlannedColumn {
  if (name === null) return null
  const builtIn = builtInColumns.find((column) => column === name)
  // A field may have the name of a column that was built in later.
  if (builtIn !== undefined && document.field_ids[name] === undefined)
    return { kind: 'built_in', name: builtIn }
  return { kind: 'field', field_id: fieldNamed(name, document, fields).id }
}

function fieldNamed(name: string, document: ImportToPlan, fields: FieldDefinition[]): FieldDefinition {
  const field = fields.find((candidate) => candidate.id === document.field_ids[name])
  if (field === undefined)
    throw new ImportError('plan_invalid', `the list has no custom field ${JSON.stringify(name)} any more`)
  return field
}

function planIdentity(
  primaryKeyId: number | null,
  columns: PlannedColumn[],
  fields: FieldDefinition[],
): ImportPlan['identity'] {
  if (primaryKeyId === null) {
    return {
      kind: 'email',
      field_id: null,
      column: columns.findIndex((column) => column?.kind === 'built_in' && column.name === 'email'),
    }
  }
  const field = fields.find((candidate) => candidate.id === primaryKeyId)
  const column = columns.findIndex(
    (candidate) => candidate?.kind === 'field' && candidate.field_id === primaryKeyId,
  )
  if (field === undefined || column === -1)
    throw new ImportError(
      'plan_invalid',
      "the list's alternate primary key isn't in the column mapping: it became the key after the import was created",
    )
  return { kind: field.field_type === 'number' ? 'number' : 'text', field_id: primaryKeyId, column }
}

/** The contents are left out: they may be megabytes. */
const plannedAutoresponder = {
  trigger: 1,
  trigger_include_subscribers_from_import: 1,
  ...delayProjection,
} as const
type PlannedAutoresponder = Pick<AutoresponderDocument, '_id' | keyof typeof plannedAutoresponder>

function planReactions({ options }: ImportToPlan, known: PlannedAutoresponder[]): ImportPlan['reactions'] {
  const { subscription, api } = options.autoresponders
  const onSubscription = known
    .filter((entry) => entry.trigger === 'subscription' && entry.trigger_include_subscribers_from_import)
    .map((entry) => entry._id)
  const byApi = (reference: typeof api.trigger_new): number[] =>
    known.filter((entry) => entry._id === reference?.id && entry.trigger === 'api').map(({ _id }) => _id)
  const planned = {
    on_subscription: {
      added: subscription.trigger ? onSubscription : [],
      updated: subscription.trigger && subscription.also_trigger_on_updated_subscribers ? onSubscription : [],
    },
    by_api: { added: byApi(api.trigger_new), updated: byApi(api.trigger_updated) },
  }
  const ids = new Set(
    [planned.on_subscription, planned.by_api].flatMap(({ added, updated }) => [...added, ...updated]),
  )
  const delays = known
    .filter(({ _id }) => ids.has(_id))
    .map(({ _id, delay, delay_amount, delay_unit, delay_time }) => ({
      autoresponder_id: _id,
      delay,
      delay_amount,
      delay_unit,
      delay_time,
    }))
  return { ...planned, delays }
}

/** The maximum of reactions that one record can cause. As many ids are reserved for it. */
export function reactionsPerRecord({ reactions: { on_subscription, by_api } }: ImportPlan): number {
  return Math.max(
    on_subscription.added.length + by_api.added.length,
    on_subscription.updated.length + by_api.updated.length,
  )
}
