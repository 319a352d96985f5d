import { waitingOfListIndex, type Collections } from '../contract/schemas/collections.ts'
import {
  detectedCharacterSet,
  detectedSeparator,
  logKinds,
  noCounts,
  recordsIn,
  remarkKinds,
  shownFilename,
  type ImportCounts,
  type ImportDocument,
  type RemarkKind,
} from '../contract/schemas/import.ts'
import { shownUrls, type SecretBox, type ShownUrls } from '../store/secrets.ts'
import type { OrganizationDocument } from '../contract/schemas/organization.ts'
import type { MailingListDocument } from '../contract/schemas/mailing-list.ts'
import { read, readTogether } from '../store/read-together.ts'
import { readSums, type ImportSums } from '../store/chunks.ts'
import { faultView } from './import-faults.ts'
import { formatInstant } from '../values/time-zone.ts'

/**
 * Imports as the API shows them: in replies and events of the control plane, and in callbacks of engines. Names, time
 * zones, counts and the imports that they wait for are read here in batches.
 */

/** Full views with all options and counts, in the order of `documents`. */
export async function fullViews(
  collections: Collections,
  documents: ImportDocument[],
  secrets: SecretBox,
  names?: Names,
) {
  const [context, waitedFor, shown] = await Promise.all([
    readViewContext(collections, documents, { withFaults: true, names }),
    importsWaitedFor(collections, documents),
    withUrls(documents, secrets),
  ])
  return shown.map(({ document, urls }) =>
    fullView(document, context, { urls, waitingFor: waitedFor.get(document._id) ?? null }),
  )
}

/** The full view of an import that is about to be created. */
export async function newImportView(
  document: ImportDocument,
  { listName, zone }: { listName: string; zone: string },
  secrets: SecretBox,
) {
  const context = {
    listNames: new Map([[document.mailing_list_id, listName]]),
    zones: new Map([[document.organization_id, zone]]),
    sums: new Map(),
  }
  return fullView(document, context, { urls: await shownUrls(document, secrets), waitingFor: null })
}

function fullView(
  document: ImportDocument,
  context: ViewContext,
  { urls, waitingFor }: { urls: ShownUrls; waitingFor: number | null },
) {
  const { options } = document
  const { counts, faults } = context.sums.get(document._id) ?? { counts: noCounts(), faults: [] }
  const summary = summaryView(document, context, urls)
  return {
    ...summary,
    overwrite: options.overwrite,
    deactivate_subscribers_not_in_import: options.deactivate_subscribers_not_in_import,
    error_message: document.error_message,
    autoresponders: options.autoresponders,
    overwrite_what: options.overwrite_what,
    overwrite_when_status: options.overwrite_when_status,
    column_mapping: options.column_mapping,
    default_custom_fields: options.default_custom_fields,
    subscriber_defaults: options.subscriber_defaults,
    file_format: options.file_format,
    detected_character_set: detectedCharacterSet(document),
    detected_csv_field_separator: detectedSeparator(document),
    stats: {
      ...summary.stats,
      subscribers: pickLogKinds(counts),
    },
    dry_run: options.dry_run,
    blank_cells: options.blank_cells,
    apply_custom_field_defaults: options.apply_custom_field_defaults,
    started_at:
      document.started_at === null
        ? null
        : formatInstant(document.started_at, context.zones.get(document.organization_id) ?? 'UTC'),
    created_by: document.created_by ?? null,
    cancelled_by: document.cancelled_by ?? null,
    headers: document.header,
    callback_url: urls.callbackUrl,
    waiting_for_import_id: waitingFor,
    download: downloadView(document, context),
    warnings: buildWarnings(document, counts),
    failure_summary: faults.map((fault) => faultView(document, fault)),
  }
}

function pickLogKinds(counts: ImportCounts): ImportCounts {
  const picked = noCounts()
  for (const kind of logKinds) picked[kind] = counts[kind]
  return picked
}

/** The warnings of the document, and those that follow from the counts of the rows so far. */
const buildWarnings = ({ warnings }: ImportDocument, counts: ImportCounts): string[] => [
  ...warnings,
  ...remarkKinds.flatMap((kind) => ((counts[kind] ?? 0) > 0 ? [remarkSentences[kind](counts[kind]!)] : [])),
]

const remarkSentences: Record<RemarkKind, (cells: number) => string> = {
  month_first_dates: (cells) =>
    `${cells === 1 ? '1 date has' : `${cells} dates have`} a second part above 12 and ${wasOrWere(cells)} read month first (MM-DD-YYYY), although date_format is dmy: check that the day comes first in the others`,
  no_dates: (cells) =>
    `${cells === 1 ? '1 cell has' : `${cells} cells have`} a mark for no date, such as 0000-00-00 or NULL, and ${wasOrWere(cells)} read as blank`,
  invisible_characters: (cells) =>
    `invisible characters were removed from ${addresses(cells)}: check where the file comes from`,
  unusual_addresses: (cells) =>
    `${addresses(cells)} with |, { or } before the @ ${wasOrWere(cells)} imported: check that the cells hold only addresses, and no names or unfilled templates`,
}

const wasOrWere = (cells: number): string => (cells === 1 ? 'was' : 'were')
const addresses = (cells: number): string => (cells === 1 ? '1 email address' : `${cells} email addresses`)

/** The fields for lists of imports and jobs. Options and plan are left out: they may take megabytes. */
export const summaryFields = {
  organization_id: 1,
  mailing_list_id: 1,
  created_at: 1,
  begins_at: 1,
  started_at: 1,
  finished_at: 1,
  state: 1,
  source: 1,
  callback: 1,
  sealed: 1,
  number_of_records: 1,
  totals: 1,
  download: 1,
  lease: 1,
} as const
export type ImportSummary = Pick<ImportDocument, '_id' | keyof typeof summaryFields>

/** Views without the options, in the order of `documents`. */
export async function listViews(collections: Collections, documents: ImportSummary[], secrets: SecretBox) {
  const [context, shown] = await Promise.all([
    readViewContext(collections, documents),
    withUrls(documents, secrets),
  ])
  return shown.map(({ document, urls }) => summaryView(document, context, urls))
}

const withUrls = <T extends ImportSummary>(documents: T[], secrets: SecretBox) =>
  Promise.all(documents.map(async (document) => ({ document, urls: await shownUrls(document, secrets) })))

export interface ViewContext {
  listNames: Map<number, string>
  zones: Map<number, string>
  sums: Map<number, ImportSums>
}

type Named = Pick<ImportDocument, 'mailing_list_id' | 'organization_id'>

/** Reads of the names that views of these imports show. */
export const namesOf = (collections: Collections, documents: Named[]) => ({
  lists: read<MailingListDocument, Pick<MailingListDocument, '_id' | 'name'>>(collections.mailingLists, [
    among(documents.map((document) => document.mailing_list_id)),
    { $project: { name: 1 } },
  ]),
  organizations: read(collections.organizations, [
    among(documents.map((document) => document.organization_id)),
  ]),
})

const among = (ids: number[]) => ({ $match: { _id: { $in: [...new Set(ids)] } } })

interface Names {
  lists: Pick<MailingListDocument, '_id' | 'name'>[]
  organizations: OrganizationDocument[]
}

/** An import with the names that its view shows, in one command. Null when there is no such import. */
export async function findNamedImport(
  { imports, mailingLists, organizations }: Collections,
  id: number,
): Promise<NamedImport | null> {
  const lookup = ({ collectionName: from }: { collectionName: string }, localField: string, as: string) => ({
    $lookup: { from, localField, foreignField: '_id', as },
  })
  const [found] = await imports
    .aggregate<{ document: ImportDocument } & Names>([
      { $match: { _id: id } },
      { $unset: 'content' },
      { $replaceWith: { document: '$$ROOT' } },
      lookup(mailingLists, 'document.mailing_list_id', 'lists'),
      lookup(organizations, 'document.organization_id', 'organizations'),
    ])
    .toArray()
  if (found === undefined) return null
  const { document, ...names } = found
  return { document, names }
}

export interface NamedImport {
  document: ImportDocument
  names: Names
}

/** Names by list id, time zones by organization id, sums by import id. A deleted list has no name. */
export async function readViewContext(
  collections: Collections,
  documents: ImportSummary[],
  { withFaults, names }: { withFaults: boolean; names?: Names | undefined } = { withFaults: false },
): Promise<ViewContext> {
  const [{ lists, organizations }, sums] = await Promise.all([
    names ?? readTogether(namesOf(collections, documents)),
    readSums(collections, documents, { withFaults }),
  ])
  return {
    listNames: new Map(lists.map((list) => [list._id, list.name])),
    zones: new Map(organizations.map((organization) => [organization._id, organization.time_zone_name])),
    sums,
  }
}

function summaryView(document: ImportSummary, { listNames, zones, sums }: ViewContext, { url }: ShownUrls) {
  const zone = zones.get(document.organization_id) ?? 'UTC'
  const { source } = document
  return {
    id: document._id,
    mailing_list_id: document.mailing_list_id,
    mailing_list_name: listNames.get(document.mailing_list_id) ?? '',
    created_at: formatInstant(document.created_at, zone),
    state: document.state,
    begins_at: formatInstant(document.begins_at, zone),
    finished_at: document.finished_at === null ? null : formatInstant(document.finished_at, zone),
    file_source: {
      type: source.type,
      filename: shownFilename(source),
      url,
    },
    stats: {
      number_of_records: document.number_of_records,
      records_imported: recordsIn(sums.get(document._id)?.counts ?? noCounts()),
    },
  }
}

/** The progress of the download of a URL source; null before its first attempt. */
function downloadView({ source, state, download, organization_id }: ImportDocument, { zones }: ViewContext) {
  if (source.type !== 'url' || download.ends_at === null) return null
  const { attempts, next_attempt_at, bytes_received, bytes_expected } = download
  const nextAt =
    state !== 'downloading' || next_attempt_at === null
      ? null
      : formatInstant(next_attempt_at, zones.get(organization_id) ?? 'UTC')
  return { attempt: attempts + 1, next_attempt_at: nextAt, bytes_received, bytes_expected }
}

/** For each due import the one that it waits for: that which has locked its list, or else the next to begin there. */
async function importsWaitedFor(
  { imports }: Collections,
  documents: ImportDocument[],
): Promise<Map<number, number>> {
  const scheduled = documents.filter(({ state, options }) => state === 'scheduled' && !options.dry_run)
  if (scheduled.length === 0) return new Map()
  const lists = {
    mailing_list_id: { $in: [...new Set(scheduled.map((document) => document.mailing_list_id))] },
  }
  const { next, locking, due } = await readTogether(
    {
      // First, as the hint is its. The server skips from list to list, however many wait on one.
      next: read<ImportDocument, { _id: number; first: number }>(imports, [
        { $match: { state: 'scheduled', 'options.dry_run': false, ...lists } },
        { $sort: waitingOfListIndex },
        { $group: { _id: '$mailing_list_id', first: { $first: '$_id' } } },
      ]),
      locking: read<ImportDocument, Pick<ImportDocument, '_id' | 'mailing_list_id'>>(imports, [
        { $match: { ...lists, holds_list: true } },
        { $project: { mailing_list_id: 1 } },
      ]),
      due: read<ImportDocument, Pick<ImportDocument, '_id' | 'mailing_list_id'>>(imports, [
        {
          $match: {
            _id: { $in: scheduled.map(({ _id }) => _id) },
            $expr: { $lte: ['$begins_at', '$$NOW'] },
          },
        },
        { $project: { mailing_list_id: 1 } },
      ]),
    },
    { hint: waitingOfListIndex },
  )
  const lockingImports = new Map(locking.map(({ _id, mailing_list_id }) => [mailing_list_id, _id]))
  const nextImports = new Map(next.map(({ _id, first }) => [_id, first]))
  return new Map(
    due.flatMap(({ _id, mailing_list_id: list }) => {
      const waitedFor = lockingImports.get(list) ?? nextImports.get(list)
      return waitedFor === undefined || waitedFor === _id ? [] : [[_id, waitedFor] as const]
    }),
  )
}
