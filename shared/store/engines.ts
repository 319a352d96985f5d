import { UUID, type MongoClient } from 'mongodb'
import { isDuplicateKey } from '../database.ts'
import type { Collections } from '../schemas/collections.ts'
import type { EngineDocument } from '../schemas/engine.ts'

/**
 * Who is alive, by the database's clock. See shared/schemas/engine.ts for what becomes of an engine that isn't.
 */

/** A dead engine is noticed after this time; recovery from a kill -9 takes no longer than it and a moment. */
export const engineLeaseMs = 12_000
export const heartbeatMs = 3_000

const leaseEnd = { $add: ['$$NOW', engineLeaseMs] }

/** Enters an engine under the smallest number that no other engine has, and returns the number. */
export async function registerEngine(
  collections: Collections,
  engine: Pick<EngineDocument, '_id' | 'host' | 'process_id'>,
): Promise<number> {
  const { _id, host, process_id } = engine
  for (;;) {
    const taken = new Set(
      (await collections.engines.find({}, { projection: { number: 1 } }).toArray()).map(
        (other) => other.number,
      ),
    )
    let number = 0
    while (taken.has(number)) number += 1
    try {
      const document = {
        number,
        host,
        process_id,
        dead: false,
        session_ids: [],
        started_at: '$$NOW',
        lease_until: leaseEnd,
      }
      await collections.engines.updateOne({ _id }, [{ $set: document }], { upsert: true })
      return number
    } catch (error) {
      // Another engine was faster: the next number.
      if (!isDuplicateKey(error)) throw error
    }
  }
}

/** False when the engine is dead by the others' reckoning. */
export async function renewEngineLease(collections: Collections, engineId: string): Promise<boolean> {
  const { matchedCount } = await collections.engines.updateOne({ _id: engineId, dead: false }, [
    { $set: { lease_until: leaseEnd } },
  ])
  return matchedCount === 1
}

/** Notes sessions in which the engine is going to have transactions, before it has one. False when it is dead. */
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

/** The one of all engines that does what only one needs to do: a dead one is out as soon as that is noticed. */
export async function leadingEngine({ engines }: Collections): Promise<string | null> {
  const [first] = await engines
    .find({ dead: false }, { projection: { _id: 1 } })
    .sort({ number: 1 })
    .limit(1)
    .toArray()
  return first?._id ?? null
}

/** Whether an engine is entered, living or dead. */
export async function isRegistered(collections: Collections, engineId: string): Promise<boolean> {
  return (await collections.engines.findOne({ _id: engineId }, { projection: { _id: 1 } })) !== null
}

/** Leaves in good order: nothing is held any more. */
export async function unregisterEngine(collections: Collections, engineId: string): Promise<void> {
  await collections.engines.deleteOne({ _id: engineId })
}

/** Engines whose lease ran out, marked so that they can't renew it; also those that another one began to clear up after. */
export async function markDeadEngines(collections: Collections): Promise<EngineDocument[]> {
  await collections.engines.updateMany(
    { dead: false, $expr: { $lt: ['$lease_until', '$$NOW'] } },
    { $set: { dead: true } },
  )
  return collections.engines.find({ dead: true }).toArray()
}

/** Ends an engine's open transactions, which would keep rows locked for a minute and more. */
export async function killSessions(client: MongoClient, sessionIds: Uint8Array[]): Promise<void> {
  if (sessionIds.length === 0) return
  await client.db('admin').command({ killSessions: sessionIds.map((id) => ({ id: new UUID(id) })) })
}
