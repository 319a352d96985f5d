import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { EngineDocument } from '../../shared/contract/schemas/registration.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { wakeUp } from '../../shared/store/wake-up.ts'
import { isRegistered, markEnded } from '../store/engines.ts'
import {
  heartbeatMs,
  leaseMs,
  markDead,
  recordCleared,
  recordStopped,
  removeDead,
} from '../../shared/store/leases.ts'
import { listLeases, releaseExpired, releaseLeasesOfEngine } from '../../shared/store/work-leases.ts'
import { endDeadProcesses, endTransactions } from '../../shared/store/processes.ts'
import type { MaintenanceJob } from '../jobs/maintenance.ts'

/**
 * Takes over the chunks and steps of engines that ended on this machine or whose lease expired, and chunks whose own
 * lease did. Ends the transactions of other processes that died, too.
 */
export function takeOverFromEngines(database: Database, log: Logger): MaintenanceJob {
  return {
    name: 'taking over from engines that died',
    everyMs: heartbeatMs,
    runOnce: async () => {
      await endDeadProcesses(database, log)
      await markEnded(database.collections)
      await markDead(database, 'engines')
      const stallMs = database.local.leaseWatch.takeStallMs()
      if (stallMs !== null)
        log.warn(
          { stall_ms: Math.round(stallMs) },
          `the database stalled, or this engine was suspended: for ${leaseMs / 1000} s it takes over from no other process`,
        )
      const counts = { engines: 0, chunks: 0, steps: 0 }
      for (const engine of await database.collections.engines.find({ dead: true }).toArray()) {
        const { chunks, steps } = await takeOverFrom(database, engine, log)
        counts.engines += engine.cleared_at === undefined ? 1 : 0
        counts.chunks += chunks
        counts.steps += steps
      }
      await removeDead(database)
      await releaseLeasesOfUnknown(database.collections)
      return { ...counts, expired: await takeOverExpired(database.collections, log) }
    },
  }
}

async function takeOverFrom(database: Database, engine: EngineDocument, log: Logger) {
  // One that was cleared was only suspended or cut off, and may have claimed under its old id before it knew.
  if (engine.cleared_at !== undefined) return releaseLeases(database, engine, { died: false, log })
  const { collections } = database
  const held = await listLeases(collections, { engineId: engine._id })
  const imports = [...new Set(held.map(({ importId }) => importId))]
  const { chunks, steps } = await releaseLeases(database, engine, { died: true, log })
  await recordCleared(database, engine._id)
  const [dead, host, pid] = [engine._id.slice(0, 8), engine.host, engine.process_id]
  const result =
    imports.length === 0
      ? 'it had no chunks or steps'
      : `its ${chunks} chunks and ${steps} steps of import ${imports.join(', ')} are resumed by other engines`
  log.warn(
    { dead_engine: dead, host, dead_pid: pid, chunks, steps, imports },
    `took over from an engine that died or was suspended: engine ${dead} (process ${pid} on ${host}); ${result}`,
  )
  await wakeUp(collections, { reason: 'imports' })
  // Another engine may lead now.
  await wakeUp(collections, { reason: 'callback' })
  return { chunks, steps }
}

async function takeOverExpired(collections: Collections, log: Logger): Promise<number> {
  const expired = await releaseExpired(collections)
  if (expired.length > 0)
    log.warn(
      {
        chunks: expired.map(({ _id }) => _id),
        engines: [...new Set(expired.map(({ engineId }) => engineId?.slice(0, 8)))],
      },
      'took over chunks of which no batch was written for longer than their lease',
    )
  return expired.length
}

/**
 * Releases chunks and steps that are leased to engines that aren't registered. The leases are read before the register: an
 * engine registers before it claims, so one that isn't registered afterwards is gone. That holds however long this process
 * was suspended in between.
 */
export async function releaseLeasesOfUnknown(collections: Collections): Promise<void> {
  const engineIds = (await listLeases(collections)).map(({ engineId }) => engineId)
  for (const engineId of new Set(engineIds))
    if (!(await isRegistered(collections, engineId)))
      await releaseLeasesOfEngine(collections, engineId, { died: true })
}

/**
 * Ends the open transactions of an engine that no longer works, then releases its chunks and steps. In this order it may
 * break off anywhere and be done again.
 */
async function releaseLeases(
  database: Database,
  { _id, session_ids: sessionIds }: Pick<EngineDocument, '_id' | 'session_ids'>,
  { died, log }: { died: boolean; log: Logger },
): Promise<{ chunks: number; steps: number }> {
  await endTransactions(database, sessionIds, log)
  return releaseLeasesOfEngine(database.collections, _id, { died })
}

/** Called by an engine that stops: releases its remaining chunks and steps, and marks it as stopped in the register. */
export async function unregister(database: Database, engineId: string, log: Logger): Promise<void> {
  const { collections } = database
  const engine = await collections.engines.findOne({ _id: engineId })
  const registered = { _id: engineId, session_ids: engine?.session_ids ?? [] }
  await releaseLeases(database, registered, { died: false, log })
  await recordStopped(database, engineId)
  // Another engine may lead now.
  await wakeUp(collections, { reason: 'callback' })
}
