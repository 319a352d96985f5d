import { isDuplicateKey, type Database } from '../../shared/runtime/database.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { EngineDocument } from '../../shared/contract/schemas/registration.ts'
import { register } from '../../shared/store/leases.ts'

/** Registers an engine, with its sessions, under the smallest number that no other engine has; returns the number. */
export async function registerEngine(
  { db, collections }: Pick<Database, 'db' | 'collections'>,
  engine: Pick<EngineDocument, '_id' | 'host' | 'process_id' | 'session_ids' | 'sees_files' | 'folder'>,
): Promise<number> {
  for (;;) {
    const taken = new Set(
      (await collections.engines.find({}, { projection: { number: 1 } }).toArray()).map(
        (other) => other.number,
      ),
    )
    let number = 0
    while (taken.has(number)) number += 1
    try {
      await register(db, 'engines', { ...engine, number })
      return number
    } catch (error) {
      // Another engine was faster: the next number.
      if (!isDuplicateKey(error)) throw error
    }
  }
}

/** Notes further sessions of an engine, before one of them has a transaction. False when it is dead. */
export async function noteSessions(
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
 * The one of all engines that does what only one needs to do: a dead one is out as soon as that is noticed, and one that
 * doesn't see its files comes last.
 */
export async function leadingEngine({ engines }: Collections): Promise<string | null> {
  const [first] = await engines
    .find({ dead: false }, { projection: { _id: 1 } })
    .sort({ sees_files: -1, number: 1 })
    .limit(1)
    .toArray()
  return first?._id ?? null
}

/** The folder that an engine looks into; its own id where it isn't registered. */
export async function folderOf({ engines }: Collections, engineId: string): Promise<string> {
  const engine = await engines.findOne({ _id: engineId }, { projection: { folder: 1 } })
  return engine?.folder ?? engineId
}

/**
 * Whether no engine is alive that looks into another folder and sees its files. Leases aren't looked at: after a
 * failover all of them have run out, and a dead engine is marked within seconds of its own.
 */
export async function isOnlyFolder({ engines }: Collections, folder: string): Promise<boolean> {
  const other = await engines.findOne(
    { folder: { $ne: folder }, dead: false, sees_files: { $ne: false } },
    { projection: { _id: 1 } },
  )
  return other === null
}

/** Whether an engine is entered, living or dead. */
export async function isRegistered(collections: Collections, engineId: string): Promise<boolean> {
  return (await collections.engines.findOne({ _id: engineId }, { projection: { _id: 1 } })) !== null
}
