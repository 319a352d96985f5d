import type { z } from 'zod'
import { maskPassword } from '../../../shared/logger.ts'
import {
  logKinds,
  recordsIn,
  type ImportCounts,
  type ImportDocument,
} from '../../../shared/schemas/import.ts'
import { countsOf } from '../../../shared/store/chunks.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { importListView, importView } from './schemas.ts'

/** Import documents as replies. What stands beside the document is read here: names, zone, counts, whom it waits for. */

export async function fullView(
  deps: ControlPlane,
  document: ImportDocument,
): Promise<z.infer<typeof importView>> {
  const [surroundings, waitingFor] = await Promise.all([
    surroundingsOf(deps, [document]),
    importWaitedFor(deps, document),
  ])
  const { options } = document
  const counts = surroundings.counts.get(document._id)!
  const summary = summaryOf(document, surroundings)
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
    callback_url: document.callback === null ? null : maskPassword(document.callback.url),
    waiting_for_import_id: waitingFor,
    download: downloadOf(document, surroundings),
    warnings: document.warnings,
  }
}

export async function listViews(
  deps: ControlPlane,
  documents: ImportDocument[],
): Promise<z.infer<typeof importListView>[]> {
  const surroundings = await surroundingsOf(deps, documents)
  return documents.map((document) => summaryOf(document, surroundings))
}

export interface Surroundings {
  listNames: Map<number, string>
  zones: Map<number, string>
  counts: Map<number, ImportCounts>
}

export async function surroundingsOf(deps: ControlPlane, documents: ImportDocument[]): Promise<Surroundings> {
  const { collections } = deps.database
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

function summaryOf(
  document: ImportDocument,
  { listNames, zones, counts }: Surroundings,
): z.infer<typeof importListView> {
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
      url: source.url === null ? null : maskPassword(source.url),
    },
    stats: {
      number_of_records: document.number_of_records,
      records_imported: recordsIn(counts.get(document._id)!),
    },
  }
}

/** How the download of a url source stands, from its first try on. */
function downloadOf(
  { source, download, organization_id }: ImportDocument,
  { zones }: Surroundings,
): z.infer<typeof importView>['download'] {
  if (source.type !== 'url' || download.ends_at === null) return null
  const { attempts, next_attempt_at, bytes_received, bytes_expected } = download
  const nextAt =
    next_attempt_at === null ? null : formatInstant(next_attempt_at, zones.get(organization_id) ?? 'UTC')
  return { attempt: attempts + 1, next_attempt_at: nextAt, bytes_received, bytes_expected }
}

/** The import whose end a due one waits for: the one that has the list, or else the one that is to begin before it. */
async function importWaitedFor(deps: ControlPlane, document: ImportDocument): Promise<number | null> {
  const { imports } = deps.database.collections
  if (document.state !== 'scheduled' || document.options.dry_run || document.begins_at.getTime() > Date.now())
    return null
  const holder = await imports.findOne(
    { mailing_list_id: document.mailing_list_id, holds_list: true },
    { projection: { _id: 1 } },
  )
  if (holder !== null) return holder._id === document._id ? null : holder._id
  const before = await imports.findOne(
    {
      mailing_list_id: document.mailing_list_id,
      settled: false,
      state: 'scheduled',
      'options.dry_run': false,
      $or: [
        { begins_at: { $lt: document.begins_at } },
        { begins_at: document.begins_at, _id: { $lt: document._id } },
      ],
    },
    { sort: { begins_at: 1, _id: 1 }, projection: { _id: 1 } },
  )
  return before?._id ?? null
}
