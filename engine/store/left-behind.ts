import type { Document } from 'mongodb'
import type { Database } from '../../shared/runtime/database.ts'
import { matchValid } from '../../shared/store/leases.ts'
import { workingStates } from '../../shared/contract/import-state.ts'
import { endedNotFinalized } from './import-queues.ts'
import { longLeases } from './lease-cuts.ts'

/**
 * Whether there may be something to take over, to end, to cut or to enforce: a process without a valid lease, leased work,
 * a change of a limit. One command, because engines ask every 3 s and at rest there is nothing.
 */
export async function isAnythingLeftBehind(database: Database): Promise<boolean> {
  const { engines, processes, chunks, imports, organizations } = database.collections
  const invalid = { $nor: [matchValid(database)] }
  const found: [name: string, filter: Document][] = [
    [processes.collectionName, invalid],
    [chunks.collectionName, { state: 'running' }],
    [imports.collectionName, { state: { $in: [...workingStates, 'paused'] }, 'lease.holder': { $ne: null } }],
    [imports.collectionName, { ...endedNotFinalized, 'lease.holder': { $ne: null } }],
    [organizations.collectionName, { limit_change: { $exists: true } }],
    ...longLeases(database.collections).map(
      ({ collection, filter }) => [collection, filter] as [string, Document],
    ),
  ]
  const ofOthers = found.map(([coll, filter]) => ({
    $unionWith: { coll, pipeline: [{ $match: filter }, { $limit: 1 }, { $project: { _id: 1 } }] },
  }))
  const [first] = await engines
    .aggregate([{ $match: invalid }, { $project: { _id: 1 } }, ...ofOthers, { $limit: 1 }])
    .toArray()
  return first !== undefined
}
