import type { Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { EngineDocument } from '../../shared/contract/schemas/registration.ts'
import { register } from '../../shared/store/leases.ts'

/** Registers an engine, with its sessions, under the smallest number that no other engine has; returns the number. */
export async function registerEngine(
  database: Database,
  engine: Pick<EngineDocument, '_id' | 'host' | 'process_id' | 'session_ids' | 'sees_files' | 'folder'>,
): Promise<number> {
  for (;;) {
    const taken = new Set(
      (await database.collections.engines.find({}, { projection: { number: 1 } }).toArray()).map(
        (other) => other.number,
      ),
    )
    let number = 0
    while (taken.has(number)) number += 1
    try {
      await register(database, 'engines', { ...engine, number })
      return number
    } catch (error) {
      // Another engine has registered under the number meanwhile.
      if (!isDuplicateKey(error)) throw error
    }
  }
}

/** Registers further sessions of an engine, before their first transaction. False when the engine is marked dead or removed. */
export async function registerSessions(
  collections: Collections,
  engineId: string,
  sessionIds: Uint8Array[],
): Promise<boolean> {
  const { matchedCount } = await collections.engines.updateOne(
    { _id: engineId, dead: false },
    { $push: { session_ids: { $each: sessionIds } } },
  )
  return matchedCount === 1
}

/**
 * Whether the engine is the leader, which does the work that only one engine needs to do. That is the engine with the
 * smallest number that isn't marked dead; those that can't read their files come last.
 */
export async function isLeadingEngine({ engines }: Collections, engineId: string): Promise<boolean> {
  const first = await engines.findOne(
    { dead: false },
    { projection: { _id: 1 }, sort: { sees_files: -1, number: 1 } },
  )
  return first?._id === engineId
}

/** Where the files of an engine are, as it was registered. */
interface EngineFolder {
  host: string
  /** The host and DATA_DIR. For an engine that isn't registered its id, so that it equals no other folder. */
  folder: string
  startedAt: Date | null
}

export async function readEngineFolder({ engines }: Collections, engineId: string): Promise<EngineFolder> {
  const projection = { host: 1, folder: 1, started_at: 1 }
  const engine = await engines.findOne({ _id: engineId }, { projection })
  return {
    host: engine?.host ?? '',
    folder: engine?.folder ?? engineId,
    startedAt: engine?.started_at ?? null,
  }
}

interface OtherFolders {
  /**
   * Whether an engine with another folder is alive and can read its files. Alive means: not marked dead. Leases aren't
   * looked at, because after a failover all of them have expired, and a dead engine is marked within seconds.
   */
  areAlive: boolean
  /** Whether any engine with another folder, alive or ended in the last two minutes, or a process on another host is known. */
  areKnown: boolean
}

export async function findOtherFolders(
  { engines, processes }: Collections,
  { folder, host }: EngineFolder,
): Promise<OtherFolders> {
  const others = await engines
    .find({ folder: { $ne: folder } }, { projection: { dead: 1, sees_files: 1 } })
    .toArray()
  const elsewhere = await processes.findOne({ host: { $ne: host } }, { projection: { _id: 1 } })
  return {
    areAlive: others.some(({ dead, sees_files: seesFiles }) => !dead && seesFiles !== false),
    areKnown: others.length > 0 || elsewhere !== null,
  }
}

/** Whether an engine is registered, alive or marked dead. */
export async function isRegistered(collections: Collections, engineId: string): Promise<boolean> {
  return (await collections.engines.findOne({ _id: engineId }, { projection: { _id: 1 } })) !== null
}
