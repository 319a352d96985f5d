import { workingStates } from '../../../shared/contract/import-state.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { readEngines } from '../../../shared/processes/import-stats.ts'
import { lastAdvances } from '../../../shared/store/chunks.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** What an organization may know of the service: nothing of other organizations. */
export interface ServiceState {
  enginesAlive: number
  /** Null where no import waits. */
  oldestWaitingSeconds: number | null
  lastProgressAt: Date | null
  problems: string[]
}

export async function readServiceState(
  { database: { collections }, staging, folder }: ControlPlane,
  organizationId: number,
): Promise<ServiceState> {
  const [engines, oldestWaitingSeconds, lastProgressAt, folderProblem, spaceProblem] = await Promise.all([
    readEngines(collections),
    oldestWaiting(collections, organizationId),
    lastProgress(collections, organizationId),
    folder.check(),
    staging.spaceProblem(),
  ])
  return {
    enginesAlive: engines.alive,
    oldestWaitingSeconds,
    lastProgressAt,
    problems: [
      ...(engines.alive === 0 ? ['no engine is alive'] : []),
      ...(folderProblem === null ? [] : ['the folder of uploads and staged files is not available']),
      ...(spaceProblem === null ? [] : ['the disk is full']),
    ],
  }
}

/** Seconds for which the first due import has waited for its start. */
async function oldestWaiting({ imports }: Collections, organizationId: number): Promise<number | null> {
  const [first] = await imports
    .aggregate<{ seconds: number }>([
      {
        $match: {
          ...{ organization_id: organizationId, finished_at: null, state: 'scheduled' },
          $expr: { $lte: ['$begins_at', '$$NOW'] },
        },
      },
      { $group: { _id: null, begins_at: { $min: '$begins_at' } } },
      { $project: { seconds: { $divide: [{ $subtract: ['$$NOW', '$begins_at'] }, 1_000] } } },
    ])
    .toArray()
  return first === undefined ? null : Math.round(first.seconds)
}

/** The latest start, end or batch of an import of the organization. */
async function lastProgress(collections: Collections, organizationId: number): Promise<Date | null> {
  const { imports } = collections
  const [ended, working] = await Promise.all([
    imports
      .find(
        { organization_id: organizationId, finished_at: { $ne: null } },
        { projection: { finished_at: 1 } },
      )
      .sort({ finished_at: -1, _id: -1 })
      .limit(1)
      .toArray(),
    imports
      .find(
        { organization_id: organizationId, finished_at: null, state: { $in: [...workingStates] } },
        { projection: { started_at: 1 } },
      )
      .toArray(),
  ])
  const advances = await lastAdvances(
    collections,
    working.map(({ _id }) => _id),
  )
  const times = [ended[0]?.finished_at, ...working.map(({ started_at }) => started_at), ...advances]
  const latest = Math.max(...times.map((time) => time?.getTime() ?? -Infinity))
  return latest === -Infinity ? null : new Date(latest)
}
