import { BSON, type ClientSession } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import type { RequestError } from '../../api/request-error.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import {
  toFieldDefinition,
  type CustomFieldDocument,
  type FieldType,
} from '../../../shared/contract/schemas/custom-field.ts'
import { builtInColumns } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { matchWritingImports } from '../../../shared/store/imports.ts'
import { fieldReader } from '../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { pathId } from '../../api/scope.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { refuseAll, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { deleteCustomFieldDocument, insertCustomField, updateCustomField } from '../../store/custom-fields.ts'
import { changedFields, recordAct, recordChange } from '../audit-events/record.ts'
import { changeList } from '../list-changes.ts'
import {
  faultySettings,
  fieldsTooLarge,
  isMapped,
  isPrimaryKey,
  keyMustBeRequired,
  maxDefinitionBytes,
  maxFields,
  nameTaken,
  noCustomField,
  otherType,
  tooManyFields,
} from './refusals.ts'
import type { CustomFieldChange, CustomFieldCreation } from './schemas.ts'
import { toView } from './view.ts'

/** One page of the list's custom fields, by id. */
export const listCustomFields = (
  call: PageCall,
  { _id: listId }: MailingListDocument,
  query: TokenPageQuery,
) =>
  readPage(
    call,
    call.deps.database.collections.customFields,
    { mailing_list_id: listId },
    {
      query,
      scope: `custom fields of list ${listId}`,
      sort: { _id: 1 },
      views: (documents) => documents.map(toView),
    },
  )

/** Throws `not_found` when the list has no field with that id. */
export async function findCustomField(
  deps: ControlPlane,
  list: MailingListDocument,
  text: string | undefined,
): Promise<CustomFieldDocument> {
  const field = await deps.database.collections.customFields.findOne({
    _id: pathId(text, noCustomField),
    mailing_list_id: list._id,
  })
  if (field === null) throw noCustomField(text)
  return field
}

/** The field as stored. Throws `validation_failed` with all problems, or when the name is taken. */
export async function createCustomField(
  deps: ControlPlane,
  caller: RequestCaller,
  list: MailingListDocument,
  creation: CustomFieldCreation,
): Promise<CustomFieldDocument> {
  const { collections } = deps.database
  const document = newField(await deps.database.ids.allocate('custom_field'), list, creation)
  await changeList(deps, list._id, nameTaken(document.name), async (session) => {
    await checkNumber(collections, document, session)
    await insertCustomField(collections, document, session)
    await recordAct(deps.database, session, caller, { ...audited(list, document), action: 'created' })
  })
  return document
}

/** Throws `validation_failed` with all problems, except that the name is taken. */
const newField = (
  id: number,
  { _id: listId }: MailingListDocument,
  creation: CustomFieldCreation,
): CustomFieldDocument =>
  checkField({
    _id: id,
    mailing_list_id: listId,
    ...creation,
    name_key: comparisonForm(creation.name),
    created_at: clock.now(),
  })

/** Throws as newField. */
function changedField(field: CustomFieldDocument, change: CustomFieldChange): CustomFieldDocument {
  if (change.field_type !== undefined && change.field_type !== field.field_type) throw otherType()
  return checkField({
    ...field,
    ...withoutUndefined(change),
    name_key: comparisonForm(change.name ?? field.name),
  })
}

/** Throws `validation_failed` when the list has as many fields as are possible. */
async function checkNumber(
  collections: Collections,
  field: CustomFieldDocument,
  session: ClientSession,
): Promise<void> {
  const listId = field.mailing_list_id
  const count = await collections.customFields.countDocuments({ mailing_list_id: listId }, { session })
  if (count >= maxFields) throw tooManyFields(listId, count)
  await checkSize(collections, field, session)
}

/** Throws `validation_failed` when the definitions of the list's fields would have too many bytes. */
async function checkSize(
  { customFields }: Collections,
  field: CustomFieldDocument,
  session: ClientSession,
): Promise<void> {
  const { _id, mailing_list_id: listId } = field
  const [others] = await customFields
    .aggregate<{ bytes: number }>(
      [
        { $match: { mailing_list_id: listId, _id: { $ne: _id } } },
        { $group: { _id: null, bytes: { $sum: { $bsonSize: '$$ROOT' } } } },
      ],
      { session },
    )
    .toArray()
  if ((others?.bytes ?? 0) + BSON.calculateObjectSize(field) > maxDefinitionBytes)
    throw fieldsTooLarge(listId)
}

/** The field as stored. Throws `not_found` when it was deleted meanwhile, and as createCustomField. */
export async function changeCustomField(
  deps: ControlPlane,
  caller: RequestCaller,
  list: MailingListDocument,
  field: CustomFieldDocument,
  change: CustomFieldChange,
): Promise<CustomFieldDocument> {
  const { collections } = deps.database
  const changed = changedField(field, change)
  await changeList(deps, list._id, nameTaken(changed.name), async (session, current) => {
    if (current.primary_key_custom_field_id === changed._id && !changed.required) throw keyMustBeRequired()
    if (BSON.calculateObjectSize(changed) > BSON.calculateObjectSize(field))
      await checkSize(collections, changed, session)
    if (!(await updateCustomField(collections, changed, session))) throw noCustomField(changed._id)
    const given = Object.fromEntries(
      Object.keys(withoutUndefined(change)).map((name) => [name, Reflect.get(changed, name)]),
    )
    const changes = changedFields(field, given)
    await recordChange(deps.database, session, caller, { ...audited(list, changed), changes })
  })
  return changed
}

/**
 * The field disappears at once; the engine removes its values, which are no longer visible, in the background. Throws
 * `validation_failed` for the primary key, and while an unfinished import maps the field.
 */
export async function deleteCustomField(
  deps: ControlPlane,
  caller: RequestCaller,
  list: MailingListDocument,
  field: CustomFieldDocument,
): Promise<void> {
  const { collections } = deps.database
  await changeList(deps, list._id, nameTaken(field.name), async (session, current) => {
    if (current.primary_key_custom_field_id === field._id) throw isPrimaryKey(field._id)
    const writers = await collections.imports
      .find(matchWritingImports(list._id), { session, projection: { field_ids: 1, state: 1 } })
      .toArray()
    const mapping = writers.find((document) => Object.values(document.field_ids).includes(field._id))
    if (mapping !== undefined) throw isMapped(field._id, mapping._id, mapping.state)
    await deleteCustomFieldDocument(collections, field, session)
    await recordAct(deps.database, session, caller, { ...audited(list, field), action: 'deleted' })
  })
}

const audited = (list: MailingListDocument, { _id, name }: CustomFieldDocument) => ({
  recordType: 'custom_field' as const,
  record: { _id, organization_id: list.organization_id },
  name,
})

const withOptions: readonly FieldType[] = [
  'select_single_dropdown',
  'select_single_radio',
  'select_multiple_checkboxes',
]
const withLength: readonly FieldType[] = ['text', 'text_multiline']

/** The document with its default in stored form. Throws `validation_failed` when settings contradict each other. */
function checkField(field: CustomFieldDocument): CustomFieldDocument {
  const problems: RequestError[] = []
  const type = field.field_type
  if (builtInColumns.some((column) => column === field.name_key))
    problems.push(faultySettings.nameOfColumn(field.name))
  // Some JSON parsers drop this key or treat it as the prototype.
  if (field.name_key === '__proto__') problems.push(faultySettings.nameOfPrototype())
  if (withOptions.includes(type) && field.options.length === 0)
    problems.push(faultySettings.optionsMissing(type))
  if (!withOptions.includes(type) && field.options.length > 0)
    problems.push(faultySettings.optionsOfOtherType(type))
  if (new Set(field.options.map(comparisonForm)).size < field.options.length)
    problems.push(faultySettings.sameOptions())
  if (!withLength.includes(type) && (field.minimum_length !== null || field.maximum_length !== null))
    problems.push(faultySettings.lengthsOfOtherType(type))
  if (type !== 'number' && (field.minimum_value !== null || field.maximum_value !== null))
    problems.push(faultySettings.valuesOfOtherType(type))
  if ((field.minimum_length ?? 0) > (field.maximum_length ?? Infinity))
    problems.push(faultySettings.noLengthPossible())
  if ((field.minimum_value ?? -Infinity) > (field.maximum_value ?? Infinity))
    problems.push(faultySettings.noValuePossible())
  refuseAll(problems)
  return { ...field, default: checkDefault(field) }
}

function checkDefault(field: CustomFieldDocument): CustomFieldDocument['default'] {
  if (field.default === null || field.default === '') return null
  const reader = fieldReader(toFieldDefinition(field), 'mdy')
  const value = reader.fromJson(field.default)
  if (value === null) throw faultySettings.badDefault(reader.expectation)
  return Array.isArray(value) && value.length === 0 ? null : value
}
