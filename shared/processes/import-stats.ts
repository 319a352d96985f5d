import { endedStates, unfinishedStates, workingStates, type ImportState } from '../contract/import-state.ts'
import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'
import { listLockingImports } from '../store/imports.ts'

/** Statistics of all imports of the installation, for metrics. Each read uses an index and is bounded. */
export interface ImportStats {
  unfinished: Partial<Record<ImportState, number>>
  /** Due and not started: another import has locked their list, or no engine has started them. */
  due: { list: number; engine: number }
  /** Seconds for which the longest-waiting of them has been due; 0 when there is none. */
  queueAge: number
  chunks: { ready: number; running: number; overdue: number }
  engines: { alive: number; overdue: number }
  running: RunningImport[]
}

export interface RunningImport {
  importId: number
  organizationId: number
  state: ImportState
  /** Chunks that engines have leased. */
  chunks: number
  /** Changes with each progress. */
  mark: string
}

const maxRowsRead = 10_000

export async function readImportStats(collections: Collections): Promise<ImportStats> {
  const [unfinished, waiting, locking, working, running, ready, engines] = await Promise.all([
    countByState(collections, unfinishedStates),
    readDue(collections),
    listLockingImports(collections),
    readWorking(collections),
    readRunningChunks(collections),
    collections.chunks.countDocuments({ state: 'ready' }),
    readEngines(collections),
  ])
  const locked = new Set(locking.map(({ mailing_list_id }) => mailing_list_id))
  const waitForList = waiting.filter((entry) => locked.has(entry.mailing_list_id) && !entry.dry_run).length
  const overdue = running.filter((chunk) => chunk.overdue).length
  return {
    unfinished,
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
        { $match: { finalized: false, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } } },
        { $limit: maxRowsRead },
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
      { $limit: maxRowsRead },
      { $project: { organization_id: 1, state: 1, received: '$download.bytes_received' } },
    ])
    .toArray()

const readRunningChunks = ({ chunks }: Collections) =>
  chunks
    .aggregate<{ _id: string; import_id: number; next_record: number; overdue: boolean }>([
      { $match: { state: 'running' } },
      { $limit: maxRowsRead },
      { $project: { import_id: 1, next_record: 1, overdue: { $lt: ['$lease.until', '$$NOW'] } } },
    ])
    .toArray()

export async function readEngines({ engines }: Collections): Promise<ImportStats['engines']> {
  const all = await engines
    .aggregate<{
      overdue: boolean
    }>([
      // A cleared engine is dead, and others have taken over its work.
      { $match: { cleared_at: { $exists: false } } },
      { $project: { overdue: { $or: ['$dead', { $lt: ['$lease_until', '$$NOW'] }] } } },
    ])
    .toArray()
  const overdue = all.filter((engine) => engine.overdue).length
  return { alive: all.length - overdue, overdue }
}

/** Counted apart and less often, because millions of imports may have ended. */
export function countEndedImports(collections: Collections): Promise<Partial<Record<ImportState, number>>> {
  return countByState(collections, endedStates)
}

async function countByState(
  { imports }: Collections,
  states: readonly ImportState[],
): Promise<Partial<Record<ImportState, number>>> {
  return Object.fromEntries(
    await Promise.all(states.map(async (state) => [state, await imports.countDocuments({ state })] as const)),
  )
}
