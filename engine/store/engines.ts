import type { Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import { hasEnded } from '../../shared/runtime/process-end.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { EngineDocument } from '../../shared/contract/schemas/registration.ts'
import { register } from '../../shared/store/leases.ts'

/** Registers an engine, with its sessions, under the smallest number that no other engine has; returns the number. */
export async function registerEngine(
  database: Database,
  engine: Pick<EngineDocument, '_id' | 'host' | 'process_id' | 'origin' | 'session_ids' | 'sees_files'>,
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

/** Registers further sessions of an engine, before their first transaction. Throws when it is marked dead or removed. */
export async function registerSessions(
  collections: Collections,
  engineId: string,
  sessionIds: Uint8Array[],
): Promise<void> {
  const { matchedCount } = await collections.engines.updateOne(
    { _id: engineId, dead: false },
    { $addToSet: { session_ids: { $each: sessionIds } } },
  )
  if (matchedCount === 0) throw new Error('the engine is no longer registered')
}

/** Marks engines that have ended on this machine as dead, before their lease expires. They can't renew it afterwards. */
export async function markEnded({ engines }: Collections): Promise<void> {
  const living = await engines.find({ dead: false }, { projection: { process_id: 1, origin: 1 } }).toArray()
  const ended = living.filter(
    ({ process_id, origin }) => origin !== undefined && hasEnded(process_id, origin),
  )
  if (ended.length === 0) return
  await engines.updateMany(
    { _id: { $in: ended.map(({ _id }) => _id) }, dead: false },
    { $set: { dead: true } },
  )
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

/** Whether an engine is registered, alive or marked dead. */
export async function isRegistered(collections: Collections, engineId: string): Promise<boolean> {
  return (await collections.engines.findOne({ _id: engineId }, { projection: { _id: 1 } })) !== null
}
