import type { ClientSession } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { inTransaction } from '../../../shared/runtime/transactions.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { matchWritingImports } from '../../../shared/store/imports.ts'
import { countsByList, keepOutNewSubscribers } from '../../../shared/store/subscriber-counts.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { missingOrganization, noMailingList } from '../../api/scope.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { refuseAll, mapDuplicateKey, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { insertMailingList, updateMailingList } from '../../store/mailing-lists.ts'
import { changedFields, recordAct, recordChange } from '../audit-events/record.ts'
import { changeList } from '../list-changes.ts'
import { keyDoesNotFit, keyNamesNoField, keyOfFullList, keyWhileImporting, nameTaken } from './refusals.ts'
import type { MailingListChange, MailingListCreation, MailingListQuery } from './schemas.ts'
import { toFullView, toView, type FullMailingListView, type NewestImport } from './view.ts'

/** One page of the organization's mailing lists, by id. */
export const listMailingLists = (
  call: PageCall,
  organizationId: number,
  { search, view, ...query }: MailingListQuery,
) =>
  readPage(
    call,
    call.deps.database.collections.mailingLists,
    { organization_id: organizationId, ...(search === undefined ? {} : hasInName(search)) },
    {
      query,
      scope: `mailing lists of ${JSON.stringify([organizationId, search ?? null, view ?? null])}`,
      sort: { _id: 1 },
      views: (documents) =>
        view === 'full' ? fullViews(call.deps, organizationId, documents) : documents.map(toView),
    },
  )

const hasInName = (part: string) => ({
  $expr: { $gte: [{ $indexOfCP: ['$name_key', { $literal: comparisonForm(part.trim()) }] }, 0] },
})

/** With the counts and the newest import of each list, of which all lists are one read each. */
async function fullViews(
  { database, reads }: ControlPlane,
  organizationId: number,
  lists: MailingListDocument[],
): Promise<FullMailingListView[]> {
  const { collections } = database
  const [counts, newest, zone] = await Promise.all([
    countsByList(collections, organizationId),
    newestImports(collections, lists),
    reads.timeZone(organizationId),
  ])
  return lists.map((list) =>
    toFullView(list, { counts: counts.get(list._id), newest: newest.get(list._id), zone }),
  )
}

/** The newest import of each list, without dry runs. */
async function newestImports(
  { mailingLists }: Collections,
  lists: MailingListDocument[],
): Promise<Map<number, NewestImport>> {
  const found = await mailingLists
    .aggregate<{ _id: number; newest: NewestImport[] }>([
      { $match: { _id: { $in: lists.map(({ _id }) => _id) } } },
      {
        $lookup: {
          from: 'imports',
          localField: '_id',
          foreignField: 'mailing_list_id',
          pipeline: [
            { $match: { 'options.dry_run': false } },
            { $sort: { _id: -1 } },
            { $limit: 1 },
            { $project: { state: 1, created_at: 1, finished_at: 1 } },
          ],
          as: 'newest',
        },
      },
      { $project: { newest: 1 } },
    ])
    .toArray()
  return new Map(found.flatMap(({ _id, newest: [first] }) => (first === undefined ? [] : [[_id, first]])))
}

/** The list as stored. Throws `validation_failed` when the organization doesn't exist, or the name is taken. */
export async function createMailingList(
  deps: ControlPlane,
  caller: RequestCaller,
  creation: MailingListCreation,
): Promise<MailingListDocument> {
  const { collections } = deps.database
  const { organization_id: wanted, ...fields } = creation
  const organizationId = wanted ?? caller.organizationId
  refuseAll(await missingOrganization(deps, organizationId))
  const document: MailingListDocument = {
    _id: await deps.database.ids.allocate('mailing_list'),
    organization_id: organizationId,
    ...fields,
    name_key: comparisonForm(fields.name),
    revision: 0,
    created_at: clock.now(),
  }
  await mapDuplicateKey(nameTaken(fields.name), () =>
    inTransaction(deps.database, async (session) => {
      await insertMailingList(collections, document, session)
      await recordAct(deps.database, session, caller, { ...audited(document), action: 'created' })
    }),
  )
  return document
}

/** The list as stored. Throws `validation_failed` when the name is taken, or the field can't be the primary key. */
export async function changeMailingList(
  deps: ControlPlane,
  caller: RequestCaller,
  list: MailingListDocument,
  change: MailingListChange,
): Promise<MailingListDocument> {
  const set: Partial<MailingListDocument> = withoutUndefined(change)
  if (change.name !== undefined) set.name_key = comparisonForm(change.name)
  const name = change.name ?? list.name
  return changeList(deps, list._id, nameTaken(name), async (session, current) => {
    const primaryKey = change.primary_key_custom_field_id
    if (primaryKey !== undefined && primaryKey !== current.primary_key_custom_field_id)
      await checkPrimaryKey(deps, current, primaryKey, session)
    if (Object.keys(set).length === 0) return current
    const changed = await updateMailingList(deps.database.collections, list._id, set, session)
    if (changed === null) throw noMailingList(list._id)
    const changes = changedFields(current, withoutUndefined(change))
    await recordChange(deps.database, session, caller, { ...audited(changed), changes })
    return changed
  })
}

const audited = (list: MailingListDocument) => ({
  recordType: 'mailing_list' as const,
  record: list,
  name: list.name,
})

/** Throws `validation_failed` unless the list is empty, without a running import, and the field fits. */
async function checkPrimaryKey(
  deps: ControlPlane,
  { _id: listId, organization_id: organizationId }: MailingListDocument,
  fieldId: number | null,
  session: ClientSession,
): Promise<void> {
  const { subscribers, imports, customFields } = deps.database.collections
  if ((await subscribers.findOne({ mailing_list_id: listId }, { session, projection: { _id: 1 } })) !== null)
    throw keyOfFullList()
  await keepOutNewSubscribers(deps.database, session, { organizationId, listId })
  const writer = await imports.findOne(matchWritingImports(listId), { session, projection: { state: 1 } })
  if (writer !== null) throw keyWhileImporting(writer._id, writer.state)
  if (fieldId === null) return
  const field = await customFields.findOne({ _id: fieldId, mailing_list_id: listId }, { session })
  if (field === null) throw keyNamesNoField(listId)
  if (!field.required || (field.field_type !== 'text' && field.field_type !== 'number')) throw keyDoesNotFit()
}
