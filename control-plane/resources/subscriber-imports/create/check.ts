import { randomBytes } from 'node:crypto'
import type { Collections } from '../../../../shared/contract/schemas/collections.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../../shared/contract/schemas/mailing-list.ts'
import { read, readTogether } from '../../../../shared/store/read-together.ts'
import { parseApiTime } from '../../../../shared/values/date-time.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import type { RecordOfPath } from '../../../api/endpoint.ts'
import type { RequestError } from '../../../api/request-error.ts'
import { canAccess, localListInPath, noMailingList, pathId, refuseRemoteList } from '../../../api/scope.ts'
import { refuseAll } from '../../../api/validation.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { callbackSchemes, storedUrl, urlProblem } from './client-url.ts'
import {
  checkOptions,
  checkSource,
  type CheckedOptions,
  type CheckedSource,
  type ImportDeps,
  type ApiTrigger,
  type NamedAutoresponder,
} from './options.ts'
import type { ImportCreation } from '../schemas.ts'
import { badCallback, faultySource, wrongBeginning } from './refusals.ts'

/** The check of a creation's body. Inspections, which create no import, use it too. */

export interface ListContext extends Pick<ImportDeps, 'list' | 'fields'> {
  /** IANA name of the organization's zone. */
  zoneName: string
  /** By the database's clock. */
  now: Date
}

export type CreationContext = ListContext & ImportDeps

/** The list that a path names, which must not be a Remote List, with its fields. */
export const listContextInPath: RecordOfPath<ListContext> = {
  refusals: localListInPath.refusals,
  async find({ deps, caller, params: { mailing_list_id: text } }) {
    const context = await readListContext(deps, pathId(text, noMailingList))
    if (context === null || !canAccess(caller, context.list.organization_id)) throw noMailingList(text)
    refuseRemoteList(context.list)
    return context
  },
}

export async function readListContext(
  { database: { collections } }: ControlPlane,
  listId: number,
): Promise<ListContext | null> {
  // The list comes first. What is read after it is at least as new as its revision, and later changes raise that.
  const { lists, fields } = await readTogether({
    lists: read<MailingListDocument, MailingListDocument & { now: Date; zones: [string] }>(
      collections.mailingLists,
      [
        { $match: { _id: listId } },
        withOrganization,
        { $set: { now: '$$NOW', zones: '$zones.time_zone_name' } },
      ],
    ),
    fields: read(collections.customFields, [{ $match: { mailing_list_id: listId } }, { $sort: { _id: 1 } }]),
  })
  const [list] = lists
  return list === undefined ? null : { list, fields, zoneName: list.zones[0], now: list.now }
}

const withOrganization = {
  $lookup: { from: 'organizations', localField: 'organization_id', foreignField: '_id', as: 'zones' },
}

/** Adds the autoresponders that the body names to what a creation on the list is checked against. */
export async function creationContext(
  { database: { collections } }: ControlPlane,
  context: ListContext,
  { autoresponders: { api } }: Pick<ImportCreation, 'autoresponders'>,
): Promise<CreationContext> {
  // Only the named ones: to read all of a list's, the server may have to load hundreds of megabytes of contents.
  const [triggerNew, triggerUpdated] = await Promise.all([
    namedAutoresponder(collections, context.list._id, api.trigger_new),
    namedAutoresponder(collections, context.list._id, api.trigger_updated),
  ])
  return { ...context, autoresponders: { trigger_new: triggerNew, trigger_updated: triggerUpdated } }
}

/** By its id; where the reference has none, by its name, in any letter case. */
async function namedAutoresponder(
  { autoresponders }: Collections,
  listId: number,
  reference: ImportCreation['autoresponders']['api'][ApiTrigger],
): Promise<NamedAutoresponder | null> {
  if (reference === null) return null
  const { id, name = '' } = reference
  return autoresponders.findOne<NamedAutoresponder>(
    {
      mailing_list_id: listId,
      ...(id === undefined ? { name_key: comparisonForm(name.trim()) } : { _id: id }),
    },
    { projection: { name: 1, trigger: 1 } },
  )
}

interface CheckedCreation extends CheckedOptions {
  source: CheckedSource
  beginsAt: Date
  callback: ImportDocument['callback']
}

/** Throws `validation_failed` with all problems. */
export async function checkCreation(
  deps: ControlPlane,
  context: CreationContext,
  { body, content }: { body: ImportCreation; content: { isBlank: boolean } | null },
): Promise<CheckedCreation> {
  const problems: RequestError[] = []
  const { options, fieldIds } = checkOptions(body, context, problems)
  const source = checkSource(body.file_source, { content, settings: deps.settings }, problems)
  const beginsAt = readBeginning(body.begins_at, context, problems)
  const callback = checkCallback(body.callback_url, deps, problems)
  if (problems.length === 0 && source.type === 'upload_directory') {
    const upload = await deps.uploads.find(context.list.organization_id, source.filename)
    if (upload === null) problems.push(faultySource.noSuchUpload(source.filename))
    else if (body.file_source.delete_after) source.deleted_blob = upload.blob
  }
  refuseAll(problems)
  return { options, fieldIds, source, beginsAt, callback }
}

/** The time at which the import begins. Both `now` and no text are the time of creation. */
function readBeginning(
  text: string | undefined,
  { zoneName, now }: CreationContext,
  problems: RequestError[],
): Date {
  if (text === undefined || text === 'now') return now
  const instant = parseApiTime(text, zoneName)
  if (instant === null) problems.push(wrongBeginning())
  return instant ?? now
}

function checkCallback(
  text: string | undefined,
  deps: ControlPlane,
  problems: RequestError[],
): ImportDocument['callback'] {
  if (text === undefined) return null
  const url = URL.parse(text)
  const problem = urlProblem(url, callbackSchemes, deps.settings)
  if (problem !== null) problems.push(badCallback(problem))
  if (url === null || problem !== null) return null
  return { url: storedUrl(url, text), secret: `whsec_${randomBytes(24).toString('base64')}` }
}
