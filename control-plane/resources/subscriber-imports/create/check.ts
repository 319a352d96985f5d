import { randomBytes } from 'node:crypto'
import type { Collections } from '../../../../shared/contract/schemas/collections.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../../shared/contract/schemas/mailing-list.ts'
import { read, readTogether } from '../../../../shared/store/read-together.ts'
import { parseApiTime } from '../../../../shared/values/date-time.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import type { RequestError } from '../../../api/request-error.ts'
import { noMailingList } from '../../../api/scope.ts'
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

export interface CreationContext extends ImportDeps {
  /** IANA name of the organization's zone. */
  zoneName: string
  /** By the database's clock. */
  now: Date
}

/** Reads what a creation on a list is checked against. Throws `not_found` when the list is gone. */
export async function creationContext(
  { database }: ControlPlane,
  known: MailingListDocument,
  { autoresponders: { api } }: Pick<ImportCreation, 'autoresponders'>,
): Promise<CreationContext> {
  const { collections } = database
  // The list comes first. What is read after it is at least as new as its revision, and later changes raise that.
  const { lists, fields, organizations } = await readTogether({
    lists: read<MailingListDocument, MailingListDocument & { now: Date }>(collections.mailingLists, [
      { $match: { _id: known._id } },
      { $set: { now: '$$NOW' } },
    ]),
    fields: read(collections.customFields, [
      { $match: { mailing_list_id: known._id } },
      { $sort: { _id: 1 } },
    ]),
    organizations: read(collections.organizations, [{ $match: { _id: known.organization_id } }]),
  })
  // Only the named ones: to read all of a list's, the server may have to load hundreds of megabytes of contents.
  const [triggerNew, triggerUpdated] = await Promise.all([
    namedAutoresponder(collections, known._id, api.trigger_new),
    namedAutoresponder(collections, known._id, api.trigger_updated),
  ])
  const [list] = lists
  const [organization] = organizations
  if (list === undefined || organization === undefined) throw noMailingList(known._id)
  return {
    ...{ list, fields, zoneName: organization.time_zone_name, now: list.now },
    autoresponders: { trigger_new: triggerNew, trigger_updated: triggerUpdated },
  }
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
