import type { Filter } from 'mongodb'
import { databaseTime } from '../../../../shared/runtime/database.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import { fullViews, summaryFields, type ImportSummary } from '../../../../shared/processes/import-views.ts'
import { dayMs } from '../../../../shared/values/durations.ts'
import { PageReader, type PageCall } from '../../../api/json-page.ts'
import { readPage, type Page } from '../../../api/paging.ts'
import { pageStart, tokenPaging } from '../../../api/token-paging.ts'
import type { ImportListQuery } from '../schemas.ts'
import { listViews } from '../view.ts'

const recentDays = 14
const maxFullViews = 100

/** A page: imports that haven't ended, soonest first, then the ended ones, newest first; or all in order of creation. */
export async function listImports(
  call: PageCall,
  where: Filter<ImportDocument>,
  asked: ImportListQuery,
): Promise<Page> {
  const { db, collections } = call.deps.database
  const { imports } = collections
  const { view, state: states, order } = asked
  const query = view === 'full' ? { ...asked, per_page: Math.min(asked.per_page, maxFullViews) } : asked
  const scope = `imports ${JSON.stringify([where, query.scope, states, view, order])}`
  const since = new Date((await databaseTime(db)).getTime() - recentDays * dayMs)
  const wanted = states === undefined ? where : { ...where, state: { $in: [...states] } }
  const active = { ...wanted, finished_at: null }
  const ended = { ...wanted, finished_at: query.scope === 'recent' ? { $gte: since } : { $ne: null } }
  const toViews = (documents: ImportSummary[]) =>
    view === 'full'
      ? fullViews(collections, documents as ImportDocument[], call.deps.secrets)
      : listViews(call.deps, documents)
  const options = { projection: view === 'full' ? { content: 0 as const } : summaryFields }
  if (order === 'created')
    return readPage(call, imports, createdFilter(query.scope, { wanted, active, ended }), {
      ...{ query, scope, sort: { _id: -1 as const }, views: toViews },
      ...options,
    })
  const { skip, after } = pageStart(call.deps, query, scope)
  const [activeTotal, endedTotal] = await Promise.all([
    query.scope === 'finished' ? 0 : imports.countDocuments(active),
    query.scope === 'active' ? 0 : imports.countDocuments(ended),
  ])
  const shownIds: number[] = []
  const reader = new PageReader<ImportSummary>({
    call,
    max: query.per_page,
    views: (documents) => {
      shownIds.push(...documents.map(({ _id }) => _id))
      return toViews(documents)
    },
  })
  const position = after === null ? null : readPosition(after)
  if (activeTotal > 0 && skip < activeTotal && position?.isEnded !== true)
    await reader.read(
      imports
        .find<ImportSummary>({ $and: [active, behind('begins_at', '$gt', position)] }, options)
        .sort({ begins_at: 1, _id: 1 })
        .skip(skip)
        .limit(reader.limit),
    )
  if (endedTotal > 0 && !reader.hasMore)
    await reader.read(
      imports
        .find<ImportSummary>(
          {
            $and: [
              ended,
              behind('finished_at', '$lt', position?.isEnded === true ? position : null),
              // An import that has ended since the active ones were read is on the page already.
              { _id: { $nin: shownIds } },
            ],
          },
          options,
        )
        .sort({ finished_at: -1, _id: -1 })
        .skip(Math.max(0, skip - activeTotal))
        .limit(reader.limit),
    )
  const last = reader.last
  return {
    data: reader.data,
    paging: tokenPaging(call.deps, query, {
      scope,
      last: last === null ? null : writePosition(last),
      total: activeTotal + endedTotal,
    }),
  }
}

function createdFilter(
  scope: ImportListQuery['scope'],
  { wanted, active, ended }: Record<'wanted' | 'active' | 'ended', Filter<ImportDocument>>,
): Filter<ImportDocument> {
  if (scope === 'all') return wanted
  if (scope === 'active') return active
  return scope === 'finished' ? ended : { $or: [active, ended] }
}

/** Where a page ended: the last import's values of the keys that active or ended imports are sorted by. */
interface Position {
  isEnded: boolean
  at: Date
  id: number
}

const writePosition = ({ _id, begins_at, finished_at }: ImportSummary): string =>
  `${finished_at === null ? 'active' : 'ended'}:${(finished_at ?? begins_at).getTime()}:${_id}`

function readPosition(text: string): Position {
  const [kind, time, id] = text.split(':')
  return { isEnded: kind === 'ended', at: new Date(Number(time)), id: Number(id) }
}

function behind(
  key: 'begins_at' | 'finished_at',
  operator: '$gt' | '$lt',
  position: Position | null,
): Filter<ImportDocument> {
  if (position === null) return {}
  const { at, id } = position
  return { $or: [{ [key]: { [operator]: at } }, { [key]: at, _id: { [operator]: id } }] }
}
