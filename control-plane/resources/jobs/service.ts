import type { Filter } from 'mongodb'
import { clock } from '../../../shared/runtime/clock.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import { importStates, unfinishedStates } from '../../../shared/contract/import-state.ts'
import {
  summaryFields,
  viewContextOf,
  type ImportSummary,
  type ViewContext,
} from '../../../shared/store/import-views.ts'
import { recordsIn, type ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage, type Page } from '../../api/paging.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import { jobTypes, type JobQuery, type JobView } from './schemas.ts'

/** A job is another view of an import: every import has one. */

export interface JobScope {
  /** Whose jobs, and in whose time zone times without an offset are. */
  organizationId: number
  everywhere: boolean
  unfinished: boolean
}

/** One page of them, newest first. Throws `invalid_request` for a time that is none. */
export async function listJobs(
  call: PageCall,
  { page, per_page, page_token, ...wanted }: JobQuery,
  scope: JobScope,
): Promise<Page> {
  const { collections } = call.deps.database
  const { imports, organizations } = collections
  const organization = await organizations.findOne(
    { _id: scope.organizationId },
    { projection: { time_zone_name: 1 } },
  )
  const filter = filterOf(wanted, scope, organization?.time_zone_name ?? 'UTC')
  return readPage(call, imports, filter, {
    query: { page, per_page, page_token },
    scope: `jobs ${JSON.stringify([scope, wanted])}`,
    sort: { _id: -1 },
    projection: summaryFields,
    views: async (documents: ImportSummary[]) => {
      const context = await viewContextOf(collections, documents)
      return documents.map((document) => jobOf(document, context))
    },
  })
}

function filterOf(
  query: Omit<JobQuery, keyof TokenPageQuery>,
  scope: JobScope,
  zone: string,
): Filter<ImportDocument> {
  const conditions: Filter<ImportDocument>[] = []
  if (!scope.everywhere) conditions.push({ organization_id: scope.organizationId })
  // The same twice: one for the index of an organization's imports, one for that of all.
  if (scope.unfinished) conditions.push({ finished_at: null }, { state: { $in: [...unfinishedStates] } })
  for (const name of ['begins_at', 'finished_at'] as const) {
    for (const [side, operator] of [
      ['after', '$gt'],
      ['before', '$lt'],
    ] as const) {
      const parameter = `${name}__${side}` as const
      const text = query[parameter]
      if (text !== undefined) conditions.push({ [name]: { [operator]: readTime(parameter, text, zone) } })
    }
  }
  const types = query.job_type?.split(',').map((type) => type.trim())
  const states = query.state?.split(',').map((state) => state.trim())
  if (types !== undefined && !jobTypes.some((type) => types.includes(type)))
    conditions.push({ _id: { $in: [] } })
  if (states !== undefined)
    conditions.push({ state: { $in: importStates.filter((state) => states.includes(state)) } })
  return conditions.length === 0 ? {} : { $and: conditions }
}

const unixSeconds = /^-?\d{1,12}(\.\d{1,9})?$/

function readTime(parameter: string, text: string, zone: string): Date {
  const instant = unixSeconds.test(text) ? new Date(Number(text) * 1000) : parseApiTime(text, zone)
  if (instant === null)
    throw new RequestError(
      'invalid_request',
      `${parameter} must be ISO 8601 with date and time, such as 2026-01-31T08:00:00Z (a plus sign is sent as %2B), in the years 1000 to 9999, or UNIX seconds`,
    )
  return instant
}

function jobOf(document: ImportSummary, { zones, counts }: ViewContext): JobView {
  const zone = zones.get(document.organization_id) ?? 'UTC'
  const { created_at, begins_at, started_at, finished_at, state } = document
  const shown = (instant: Date) => formatInstant(instant, zone)
  const now = clock.now()
  const retryAt = [document.step_not_before, document.download.next_attempt_at].find(
    (instant) => instant instanceof Date && instant > now,
  )
  return {
    id: document._id,
    mailing_list_id: document.mailing_list_id,
    organization_id: document.organization_id,
    suppression_list_id: null,
    state,
    state2: null,
    paused: state === 'paused',
    name: document.source.filename,
    progress_value: recordsIn(counts.get(document._id)!),
    progress_total: document.number_of_records,
    job_type: 'SubscriberImport',
    begins_at: shown(begins_at),
    started_at: started_at && shown(started_at),
    finished_at: finished_at && shown(finished_at),
    created_at: shown(created_at),
    updated_at: shown(finished_at ?? started_at ?? created_at),
    retry_at: finished_at === null && retryAt ? shown(retryAt) : null,
  }
}
