import { shownUrls, type ShownUrls } from '../runtime/import-secrets.ts'
import { unfinishedOfListIndex, type Collections } from '../contract/schemas/collections.ts'
import { logKinds, recordsIn, type ImportCounts, type ImportDocument } from '../contract/schemas/import.ts'
import type { SecretBox } from '../runtime/secret-box.ts'
import { countsOf } from './chunks.ts'
import { formatInstant } from '../values/time-zone.ts'

/**
 * Imports as they are shown: by the control plane in replies and events, by engines in callbacks. What stands beside
 * the documents is read here, for all of them together: names, zones, counts, whom they wait for.
 */

/** With all options and counts, in the order of `documents`. */
export async function fullViews(collections: Collections, documents: ImportDocument[], secrets: SecretBox) {
  const [context, waitedFor, urls] = await Promise.all([
    viewContextOf(collections, documents),
    importsWaitedFor(collections, documents),
    Promise.all(documents.map((document) => shownUrls(document, secrets))),
  ])
  return documents.map((document, i) =>
    fullView(document, context, { urls: urls[i]!, waitingFor: waitedFor.get(document._id) ?? null }),
  )
}

function fullView(
  document: ImportDocument,
  context: ViewContext,
  { urls, waitingFor }: { urls: ShownUrls; waitingFor: number | null },
) {
  const { options } = document
  const counts = context.counts.get(document._id)!
  const summary = summaryOf(document, context, urls)
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
    stats: {
      ...summary.stats,
      subscribers: Object.fromEntries(logKinds.map((kind) => [kind, counts[kind]])) as ImportCounts,
    },
    dry_run: options.dry_run,
    blank_cells: options.blank_cells,
    callback_url: urls.callbackUrl,
    waiting_for_import_id: waitingFor,
    download: downloadOf(document, context),
    warnings: warningsOf(document, counts),
  }
}

/** Those of the document, and what the counts say of the rows so far. */
function warningsOf({ warnings }: ImportDocument, { month_first_dates: dates = 0 }: ImportCounts): string[] {
  if (dates === 0) return warnings
  const subject = dates === 1 ? '1 date has' : `${dates} dates have`
  return [
    ...warnings,
    `${subject} a second part above 12 and ${dates === 1 ? 'was' : 'were'} read month first (MM-DD-YYYY), although date_format is dmy: check that the day comes first in the others`,
  ]
}

/** What lists of imports and jobs show: the options and the plan of one may be megabytes. */
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
  step_not_before: 1,
} as const
export type ImportSummary = Pick<ImportDocument, '_id' | keyof typeof summaryFields>

/** Without the options, in the order of `documents`. */
export async function listViews(collections: Collections, documents: ImportSummary[], secrets: SecretBox) {
  const [context, urls] = await Promise.all([
    viewContextOf(collections, documents),
    Promise.all(documents.map((document) => shownUrls(document, secrets))),
  ])
  return documents.map((document, i) => summaryOf(document, context, urls[i]!))
}

export interface ViewContext {
  listNames: Map<number, string>
  zones: Map<number, string>
  counts: Map<number, ImportCounts>
}

/** By id: of lists, of organizations, of the imports. Of a list that is gone there is no name. */
export async function viewContextOf(
  collections: Collections,
  documents: ImportSummary[],
): Promise<ViewContext> {
  const [lists, organizations, counts] = await Promise.all([
    collections.mailingLists
      .find(
        { _id: { $in: [...new Set(documents.map((document) => document.mailing_list_id))] } },
        { projection: { name: 1 } },
      )
      .toArray(),
    collections.organizations
      .find(
        { _id: { $in: [...new Set(documents.map((document) => document.organization_id))] } },
        { projection: { time_zone_name: 1 } },
      )
      .toArray(),
    countsOf(collections, documents),
  ])
  return {
    listNames: new Map(lists.map((list) => [list._id, list.name])),
    zones: new Map(organizations.map((organization) => [organization._id, organization.time_zone_name])),
    counts,
  }
}

function summaryOf(document: ImportSummary, { listNames, zones, counts }: ViewContext, { url }: ShownUrls) {
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
      filename: source.filename,
      url,
    },
    stats: {
      number_of_records: document.number_of_records,
      records_imported: recordsIn(counts.get(document._id)!),
    },
  }
}

/** How the download of a url source stands, from its first try on. */
function downloadOf({ source, state, download, organization_id }: ImportDocument, { zones }: ViewContext) {
  if (source.type !== 'url' || download.ends_at === null) return null
  const { attempts, next_attempt_at, bytes_received, bytes_expected } = download
  const nextAt =
    state !== 'downloading' || next_attempt_at === null
      ? null
      : formatInstant(next_attempt_at, zones.get(organization_id) ?? 'UTC')
  return { attempt: attempts + 1, next_attempt_at: nextAt, bytes_received, bytes_expected }
}

/** The imports whose end due ones wait for: those that have their lists, or else the next ones to begin there. */
async function importsWaitedFor(
  { imports }: Collections,
  documents: ImportDocument[],
): Promise<Map<number, number>> {
  const scheduled = documents.filter(({ state, options }) => state === 'scheduled' && !options.dry_run)
  if (scheduled.length === 0) return new Map()
  const found = await imports
    .find(
      { _id: { $in: scheduled.map(({ _id }) => _id) }, $expr: { $lte: ['$begins_at', '$$NOW'] } },
      { projection: { _id: 1 } },
    )
    .toArray()
  const ids = new Set(found.map(({ _id }) => _id))
  const due = scheduled.filter(({ _id }) => ids.has(_id))
  if (due.length === 0) return new Map()
  const lists = { mailing_list_id: { $in: [...new Set(due.map((document) => document.mailing_list_id))] } }
  const [holders, next] = await Promise.all([
    imports.find({ ...lists, holds_list: true }, { projection: { mailing_list_id: 1 } }).toArray(),
    imports
      .aggregate<{ _id: number; first: Pick<ImportDocument, '_id' | 'begins_at'> }>(
        [
          { $match: { ...lists, finished_at: null, state: 'scheduled', 'options.dry_run': false } },
          { $sort: { begins_at: 1, _id: 1 } },
          {
            $group: { _id: '$mailing_list_id', first: { $first: { _id: '$_id', begins_at: '$begins_at' } } },
          },
        ],
        { hint: unfinishedOfListIndex },
      )
      .toArray(),
  ])
  const holderOf = new Map(holders.map((holder) => [holder.mailing_list_id, holder._id]))
  const firstOf = new Map(next.map(({ _id, first }) => [_id, first._id]))
  return new Map(
    due.flatMap(({ _id, mailing_list_id: list }) => {
      const waitedFor = holderOf.get(list) ?? firstOf.get(list)
      return waitedFor === undefined || waitedFor === _id ? [] : [[_id, waitedFor] as const]
    }),
  )
}
