import type { Filter } from 'mongodb'
import { importStates, unfinishedStates } from '../../../shared/contract/import-state.ts'
import { summaryFields, readViewContext, type ImportSummary } from '../../../shared/processes/import-views.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage, type Page } from '../../api/paging.ts'
import { readTime } from '../../api/query-time.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import { jobTypes, type JobQuery } from './schemas.ts'
import { toView } from './view.ts'

interface JobScope {
  /** Times without an offset are in the zone of this organization, which also limits the jobs unless `everywhere`. */
  organizationId: number
  everywhere: boolean
  unfinished: boolean
}

/** One page of jobs, newest first. Throws `invalid_request` for a malformed time. */
export async function listJobs(
  call: PageCall,
  { page, per_page, page_token, ...filters }: JobQuery,
  scope: JobScope,
): Promise<Page> {
  const { collections } = call.deps.database
  const { imports } = collections
  const zone = await call.deps.reads.timeZone(scope.organizationId)
  return readPage(call, imports, buildFilter(filters, scope, zone), {
    query: { page, per_page, page_token },
    scope: `jobs ${JSON.stringify([scope, filters])}`,
    sort: { _id: -1 },
    projection: summaryFields,
    views: async (documents: ImportSummary[]) => {
      const context = await readViewContext(collections, documents)
      return documents.map((document) => toView(document, context))
    },
  })
}

function buildFilter(
  query: Omit<JobQuery, keyof TokenPageQuery>,
  scope: JobScope,
  zone: string,
): Filter<ImportDocument> {
  const conditions: Filter<ImportDocument>[] = []
  if (!scope.everywhere) conditions.push({ organization_id: scope.organizationId })
  // Two equivalent conditions: one fits the index of an organization's imports, the other that of all imports.
  if (scope.unfinished) conditions.push({ finished_at: null }, { state: { $in: [...unfinishedStates] } })
  for (const name of ['begins_at', 'finished_at'] as const) {
    const [after, before] = [`${name}__after`, `${name}__before`] as const
    if (query[after] !== undefined)
      conditions.push({ [name]: { $gte: nextSecond(readTime(after, query[after], zone)) } })
    if (query[before] !== undefined)
      conditions.push({ [name]: { $lt: readTime(before, query[before], zone) } })
  }
  const types = query.job_type?.split(',').map((type) => type.trim())
  const states = query.state?.split(',').map((state) => state.trim())
  if (types !== undefined && !jobTypes.some((type) => types.includes(type)))
    conditions.push({ _id: { $in: [] } })
  if (states !== undefined)
    conditions.push({ state: { $in: importStates.filter((state) => states.includes(state)) } })
  return conditions.length === 0 ? {} : { $and: conditions }
}

/** Replies show times in whole seconds. So what is after a time begins with its next second. */
const nextSecond = (time: Date): Date => new Date((Math.floor(time.getTime() / 1_000) + 1) * 1_000)
