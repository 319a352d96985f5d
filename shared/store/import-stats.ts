import { endedStates, unfinishedStates, workingStates, type ImportState } from '../contract/import-state.ts'
import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'
import { listLockedLists } from './imports.ts'

/** How the imports of the whole installation stand, for metrics: read only, each by an index, and of bounded size. */
export interface ImportStats {
  unfinished: Partial<Record<ImportState, number>>
  /** Due and not started: because their list is another one's, or because no engine has begun them. */
  due: { list: number; engine: number }
  /** Seconds for which the first of them has been due; 0 when there is none. */
  queueAge: number
  chunks: { ready: number; running: number; overdue: number }
  engines: { alive: number; overdue: number }
  running: RunningImport[]
}

export interface RunningImport {
  importId: number
  organizationId: number
  state: ImportState
  /** Chunks of it that engines have in hand. */
  chunks: number
  /** Changes whenever something of it gets done. */
  mark: string
}

const maxListsRead = 10_000

export async function readImportStats(collections: Collections): Promise<ImportStats> {
  const [counts, waiting, lockedLists, working, running, ready, engines] = await Promise.all([
    Promise.all(unfinishedStates.map((state) => collections.imports.countDocuments({ state }))),
    readDue(collections),
    listLockedLists(collections),
    readWorking(collections),
    readRunningChunks(collections),
    collections.chunks.countDocuments({ state: 'ready' }),
    readEngines(collections),
  ])
  const held = new Set(lockedLists)
  const waitForList = waiting.filter((entry) => held.has(entry.mailing_list_id) && !entry.dry_run).length
  const overdue = running.filter((chunk) => chunk.overdue).length
  return {
    unfinished: Object.fromEntries(unfinishedStates.map((state, i) => [state, counts[i]!])),
    due: { list: waitForList, engine: waiting.length - waitForList },
    queueAge: waiting.reduce((oldest, entry) => Math.max(oldest, entry.seconds), 0),
    chunks: { ready, running: running.length - overdue, overdue },
    engines,
    running: working.map((entry) => {
      const chunks = running.filter((chunk) => chunk.import_id === entry._id)
      return {
        importId: entry._id,
        organizationId: entry.organization_id,
        state: entry.state,
        chunks: chunks.length,
        mark: [
          entry.state,
          entry.received,
          ...chunks.map((chunk) => `${chunk._id}/${chunk.next_record}`).sort(),
        ].join(' '),
      }
    }),
  }
}

const readDue = ({ imports }: Collections) =>
  imports
    .aggregate<{ mailing_list_id: number; dry_run: boolean; seconds: number }>(
      [
        { $match: { settled: false, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } } },
        { $limit: maxListsRead },
        {
          $project: {
            mailing_list_id: 1,
            dry_run: '$options.dry_run',
            seconds: { $divide: [{ $subtract: ['$$NOW', '$begins_at'] }, 1000] },
          },
        },
      ],
      { hint: notFinalizedIndex },
    )
    .toArray()

const readWorking = ({ imports }: Collections) =>
  imports
    .aggregate<{ _id: number; organization_id: number; state: ImportState; received: number }>([
      { $match: { state: { $in: [...workingStates] } } },
      { $limit: maxListsRead },
      { $project: { organization_id: 1, state: 1, received: '$download.bytes_received' } },
    ])
    .toArray()

const readRunningChunks = ({ chunks }: Collections) =>
  chunks
    .aggregate<{ _id: string; import_id: number; next_record: number; overdue: boolean }>([
      { $match: { state: 'running' } },
      { $limit: maxListsRead },
      { $project: { import_id: 1, next_record: 1, overdue: { $lt: ['$lease_until', '$$NOW'] } } },
    ])
    .toArray()

async function readEngines({ engines }: Collections): Promise<ImportStats['engines']> {
  const all = await engines
    .aggregate<{
      overdue: boolean
    }>([
      // The others took over from those that are cleared.
      { $match: { cleared_at: { $exists: false } } },
      { $project: { overdue: { $or: ['$dead', { $lt: ['$lease_until', '$$NOW'] }] } } },
    ])
    .toArray()
  const overdue = all.filter((engine) => engine.overdue).length
  return { alive: all.length - overdue, overdue }
}

/** Of those that have ended there may be millions, which is why they are counted apart, and less often. */
export async function countEndedImports(
  collections: Collections,
): Promise<Partial<Record<ImportState, number>>> {
  const counts = await Promise.all(endedStates.map((state) => collections.imports.countDocuments({ state })))
  return Object.fromEntries(endedStates.map((state, i) => [state, counts[i]!]))
}
