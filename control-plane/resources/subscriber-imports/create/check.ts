import { randomBytes } from 'node:crypto'
import { databaseTime } from '../../../../shared/runtime/database.ts'
import type { Collections } from '../../../../shared/contract/schemas/collections.ts'
import { builtInColumns, type ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../../shared/contract/schemas/mailing-list.ts'
import { maxFileNameBytes } from '../../../../shared/storage/uploads/upload-names.ts'
import { parseApiTime } from '../../../../shared/values/date-time.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import { missing } from '../../../api/scope.ts'
import { refuseProblems } from '../../../api/validation.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { storedUrl, urlProblem } from './client-url.ts'
import {
  checkOptions,
  checkSource,
  type CheckedOptions,
  type CheckedSource,
  type ImportDeps,
  type ApiTrigger,
  type NamedAutoresponder,
  defaultsTooLarge,
} from './options.ts'
import type { ImportCreation } from '../schemas.ts'

/** The check of a creation's body. Inspections, which create no import, use it too. */

const wrongBeginning =
  'begins_at must be "now" or ISO 8601 with date and time, such as 2026-01-31T08:00:00+01:00, in the years 1000 to 9999'

/** Refusals of creations and inspections beside those of their schemas, an example of each. */
export const creationRefusals = [
  'column_mapping must hold email',
  'column_mapping must hold "Number", the primary key of the list',
  `column_mapping.1 "Nothing" is neither a built-in column (${builtInColumns.join(', ')}) nor a custom field of the list`,
  'column_mapping.1 "email" is mapped twice',
  'column_mapping.1 confirmed needs a list with the confirmed field',
  "column_mapping.1 consent can't be mapped beside status, as both say who gets mail",
  'column_mapping.1 email_format needs a list with the format field',
  'default_custom_fields.Nothing is no custom field of the list',
  'default_custom_fields.Number must be an integer',
  defaultsTooLarge,
  'autoresponders.api.trigger_new must have the key id or name',
  'autoresponders.api.trigger_new 4711 is no autoresponder of the list',
  'autoresponders.api.trigger_new 4711 is triggered by subscription, not by the API',
  wrongBeginning,
  'file_source.type must be one of "json", "upload_directory", "url" (case doesn\'t matter)',
  'file_source.content is required',
  'file_source.content must not be blank',
  'file_source.filename is required',
  'file_source.filename must not be blank',
  'file_source.filename must be a plain file name without a path',
  'file_source.filename must not hold control characters',
  'file_source.filename must not begin with ".unfinished-", ".copy-" or ".clock-" and 16 hexadecimal digits, as uploads in progress do',
  `file_source.filename must not be longer than ${maxFileNameBytes} bytes`,
  'file_source.filename "subscribers.csv" is not in the upload directory',
  'file_source.url is required',
  'file_source.url must be a URL that begins with http://, https://, ftp://, ftps://',
  'file_source.url has a % that no two hexadecimal digits follow',
  "file_source.url can't be used: 10.0.0.7 is no public address and is refused; an operator may allow it with URL_IMPORT_ALLOW",
  'callback_url must be a URL that begins with http://, https://',
  "callback_url can't be used: 10.0.0.7 is no public address and is refused; an operator may allow it with URL_IMPORT_ALLOW",
]

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
  const { db, collections } = database
  // The list comes first. What is read after it is at least as new as its revision, and later changes raise that.
  const list = await collections.mailingLists.findOne({ _id: known._id })
  const [fields, triggerNew, triggerUpdated, organization, now] = await Promise.all([
    collections.customFields.find({ mailing_list_id: known._id }).sort({ _id: 1 }).toArray(),
    // Only the named ones: to read all of a list's, the server may have to load hundreds of megabytes of contents.
    namedAutoresponder(collections, known._id, api.trigger_new),
    namedAutoresponder(collections, known._id, api.trigger_updated),
    collections.organizations.findOne({ _id: known.organization_id }),
    databaseTime(db),
  ])
  if (list === null || organization === null) throw missing('mailing list', known._id)
  return {
    ...{ list, fields, zoneName: organization.time_zone_name, now },
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
  const problems: string[] = []
  const { options, fieldIds } = checkOptions(body, context, problems)
  const source = checkSource(body.file_source, { content, settings: deps.settings }, problems)
  const beginsAt = readBeginning(body.begins_at, context, problems)
  const callback = checkCallback(body.callback_url, deps, problems)
  if (problems.length === 0 && source.type === 'upload_directory') {
    const directory = deps.uploads.directory(context.list.organization_id)
    if ((await directory.find(source.filename)) === null)
      problems.push(`file_source.filename ${JSON.stringify(source.filename)} is not in the upload directory`)
  }
  refuseProblems(problems)
  return { options, fieldIds, source, beginsAt, callback }
}

/** The time at which the import begins. Both `now` and no text are the time of creation. */
function readBeginning(
  text: string | undefined,
  { zoneName, now }: CreationContext,
  problems: string[],
): Date {
  if (text === undefined || text === 'now') return now
  const instant = parseApiTime(text, zoneName)
  if (instant === null) problems.push(wrongBeginning)
  return instant ?? now
}

function checkCallback(
  text: string | undefined,
  deps: ControlPlane,
  problems: string[],
): ImportDocument['callback'] {
  if (text === undefined) return null
  const url = URL.parse(text)
  const problem = urlProblem(url, ['http:', 'https:'], deps.settings)
  if (problem !== null) problems.push(`callback_url ${problem}`)
  if (url === null || problem !== null) return null
  return { url: storedUrl(url, text), secret: `whsec_${randomBytes(24).toString('base64')}` }
}
