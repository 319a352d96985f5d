import type { Database } from '../../shared/database.ts'
import { messageOf } from '../../shared/errors.ts'
import type { Logger } from '../../shared/logger.ts'
import type { EngineDocument } from '../../shared/schemas/engine.ts'
import type { Collections } from '../../shared/schemas/collections.ts'
import {
  holdersOfChunks,
  importsOfChunksHeldBy,
  releaseChunksOf,
  releaseExpiredChunks,
} from '../../shared/store/chunks.ts'
import { ring } from '../../shared/store/doorbell.ts'
import {
  heartbeatMs,
  isRegistered,
  killSessions,
  markDeadEngines,
  unregisterEngine,
} from '../../shared/store/engines.ts'
import { holdersOfSteps, importsOfStepsHeldBy, releaseStepsOf } from '../../shared/store/import-steps.ts'
import type { Chore } from './maintenance.ts'

/** Takes over from engines whose lease ran out. */
export function takeOverFromDeadEngines(database: Database, log: Logger): Chore {
  const { collections } = database
  return {
    name: 'taking over from dead engines',
    everyMs: heartbeatMs,
    async run() {
      for (const engine of await markDeadEngines(collections)) {
        const { chunks, steps, imports } = await handOver(database, engine, { died: true, log })
        const [dead, host, pid] = [engine._id.slice(0, 8), engine.host, engine.process_id]
        const held =
          imports.length === 0
            ? 'it held nothing'
            : `its ${chunks} chunks and ${steps} steps of import ${imports.join(', ')} go on with the engines that are left`
        log.warn(
          { dead_engine: dead, host, pid, chunks, steps, imports },
          `took over from an engine whose lease ran out: engine ${dead} (process ${pid} on ${host}) died or was suspended; ${held}`,
        )
        await ring(collections, 'taken over')
      }
      // An engine that was suspended may still claim under the name that was taken from it, and die then.
      await releaseHoldsOfUnknown(collections)
      const expired = await releaseExpiredChunks(collections)
      if (expired > 0)
        log.warn(
          { chunks: expired },
          'took over chunks of which no batch was written for longer than their lease',
        )
    },
  }
}

/**
 * Releases what is held under names that aren't registered. The holders are read before the register, one by one: an
 * engine registers before it claims, so a holder that isn't registered afterwards is gone, however long this process was
 * suspended in between.
 */
export async function releaseHoldsOfUnknown(collections: Collections): Promise<void> {
  const holders = [...(await holdersOfChunks(collections)), ...(await holdersOfSteps(collections))]
  for (const engineId of new Set(holders)) {
    if (await isRegistered(collections, engineId)) continue
    await releaseChunksOf(collections, engineId, { died: true })
    await releaseStepsOf(collections, engineId, { died: true })
  }
}

/**
 * Hands on what an engine holds that works no longer: its open transactions end, its chunks and steps are for others.
 * In this order, so that it can break off anywhere and be done again.
 */
export async function handOver(
  { client, collections }: Database,
  engine: Pick<EngineDocument, '_id'>,
  { died, log }: { died: boolean; log: Logger },
): Promise<{ chunks: number; steps: number; imports: number[] }> {
  const document = await collections.engines.findOne({ _id: engine._id })
  await killSessions(client, document?.session_ids ?? []).catch((error: unknown) => {
    log.warn(
      `the sessions of an engine that works no longer can't be killed, so rows that it was writing stay locked for up to 90 s: ${messageOf(error)}`,
    )
  })
  const imports = new Set([
    ...(await importsOfChunksHeldBy(collections, engine._id)),
    ...(await importsOfStepsHeldBy(collections, engine._id)),
  ])
  const chunks = await releaseChunksOf(collections, engine._id, { died })
  const steps = await releaseStepsOf(collections, engine._id, { died })
  await unregisterEngine(collections, engine._id)
  return { chunks, steps, imports: [...imports] }
}
