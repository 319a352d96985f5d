import { randomBytes } from 'node:crypto'
import { databaseTime } from '../../../shared/database.ts'
import type { ImportDocument } from '../../../shared/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/schemas/mailing-list.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import { refuseProblems } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { storedUrl, urlProblem } from './given-url.ts'
import {
  checkOptions,
  checkSource,
  type CheckedOptions,
  type CheckedSource,
  type ImportSurroundings,
} from './options.ts'
import type { ImportCreation } from './schemas.ts'

/** May an import be created as asked: what creations are checked for, and inspections, which create none. */

export interface CreationSurroundings extends ImportSurroundings {
  /** IANA name of the organization's zone. */
  zoneName: string
  /** By the database's clock. */
  now: Date
}

/** What creations on a list are checked against, as it is now. */
export async function creationSurroundings(
  { database }: ControlPlane,
  known: MailingListDocument,
): Promise<CreationSurroundings> {
  const { db, collections } = database
  const [list, fields, autoresponders, organization, now] = await Promise.all([
    collections.mailingLists.findOne({ _id: known._id }),
    collections.customFields.find({ mailing_list_id: known._id }).sort({ _id: 1 }).toArray(),
    collections.autoresponders.find({ mailing_list_id: known._id }).toArray(),
    collections.organizations.findOne({ _id: known.organization_id }),
    databaseTime(db),
  ])
  return { list: list!, fields, autoresponders, zoneName: organization!.time_zone_name, now }
}

export interface CheckedCreation extends CheckedOptions {
  source: CheckedSource
  beginsAt: Date
  callback: ImportDocument['callback']
}

/** Throws `validation_failed` with all that is wrong. */
export async function checkCreation(
  deps: ControlPlane,
  surroundings: CreationSurroundings,
  { given, content }: { given: ImportCreation; content: { isBlank: boolean } | null },
): Promise<CheckedCreation> {
  const problems: string[] = []
  const { options, fieldIds } = checkOptions(given, surroundings, problems)
  const source = checkSource(given.file_source, { content, settings: deps.settings }, problems)
  const beginsAt = beginningOf(given.begins_at, surroundings, problems)
  const callback = checkCallback(given.callback_url, deps, problems)
  if (problems.length === 0 && source.type === 'upload_directory')
    await checkUpload(deps, surroundings.list.organization_id, source.filename, problems)
  refuseProblems(problems)
  return { options, fieldIds, source, beginsAt, callback }
}

/** The instant at which the import begins; `now`, and no time at all, is the time of creation. */
function beginningOf(
  text: string | undefined,
  { zoneName, now }: CreationSurroundings,
  problems: string[],
): Date {
  if (text === undefined || text === 'now') return now
  const instant = parseApiTime(text, zoneName)
  if (instant === null)
    problems.push(
      'begins_at must be "now" or ISO 8601 with date and time, such as 2026-01-31T08:00:00+01:00, in the years 1000 to 9999',
    )
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

async function checkUpload(
  deps: ControlPlane,
  organizationId: number,
  filename: string,
  problems: string[],
): Promise<void> {
  if ((await deps.uploads.directory(organizationId).find(filename)) === null)
    problems.push(`file_source.filename ${JSON.stringify(filename)} is not in the upload directory`)
}
