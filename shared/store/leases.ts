import { UUID, type Db, type MongoClient, type ObjectId } from 'mongodb'
import { clock } from '../runtime/clock.ts'
import type { EngineDocument, ProcessDocument, RegisteredDocument } from '../contract/schemas/registration.ts'

/**
 * Which processes are alive, by the clock of the primary. See shared/contract/schemas/registration.ts for what becomes of one that
 * isn't.
 *
 * An election takes 10 to 14 s, in which nobody can renew a lease, and the new primary's clock may differ. So a lease is
 * that of an election, and each of an earlier one is made a whole lease anew before it is judged. All that is written is
 * made from one answer of one primary, its election and its time: a write that another primary carries out later still
 * says what was true.
 */

/** A dead process is noticed after this time; recovery from a kill -9 takes no longer than it and a moment. */
export const leaseMs = 12_000
export const heartbeatMs = 3_000
/** A living engine knows by then that the others took it for dead: its renewal has had an answer or timed out. */
const forgetDeadMs = 120_000

/** Engines have a collection of their own: what counts engines must count nothing else. */
export type Registry = 'engines' | 'processes'

type Registration = Pick<RegisteredDocument, '_id' | 'host' | 'process_id' | 'session_ids'> &
  (Pick<EngineDocument, 'number' | 'sees_files' | 'folder'> | Pick<ProcessDocument, 'kind'>)

export interface PrimaryClock {
  time: Date
  /** Null through a mongos. */
  election: string | null
}

const registered = (db: Db, registry: Registry) => db.collection<RegisteredDocument>(registry)

/**
 * While the database stalls no process can renew its lease, and all leases run out. So a process judges others after it has
 * watched for one lease: its own writes to the register wait for a majority too, and followed each other without a gap.
 * A gap is a stall, a suspension, or its own start.
 */
let lastWriteAt = -Infinity
let judgesFrom = Infinity
/** A lease outlives a gap of this length, as it is renewed in a quarter of its time. */
const maxGapMs = 2 * heartbeatMs

async function noticingGaps<T>(write: () => Promise<T>): Promise<T> {
  const result = await write()
  const now = clock.monotonicMs()
  if (now - lastWriteAt > maxGapMs) judgesFrom = now + leaseMs
  lastWriteAt = now
  return result
}

/** Whether a lease that ran out shows a dead process. To be asked after `renewAfterElection`, which notices a gap. */
export const canJudge = (): boolean => clock.monotonicMs() >= judgesFrom

let lastTime = new Date(0)
/** The database's time at the last renewal, some seconds ago: a lower bound of what it is now, without a round trip. */
export const lastKnownTime = (): Date => lastTime

/** Throws where the server that answers has just stopped being the primary. */
export async function readPrimaryClock(db: Db): Promise<PrimaryClock> {
  const hello = await db.command({ hello: 1 })
  if (hello['isWritablePrimary'] !== true)
    throw new Error('the primary of the database has just stepped down, and leases go by its clock')
  const election = hello['electionId'] as ObjectId | undefined
  lastTime = hello['localTime'] as Date
  return { time: lastTime, election: election?.toHexString() ?? null }
}

const leaseFrom = ({ time, election }: PrimaryClock) => ({
  lease_until: new Date(time.getTime() + leaseMs),
  lease_election: election,
})

/** The lease begins now. Throws a duplicate key error where a number is taken. */
export async function register(
  db: Db,
  registry: Registry,
  { _id, ...registration }: Registration,
): Promise<void> {
  const now = await readPrimaryClock(db)
  const document = { ...registration, dead: false, started_at: now.time, ...leaseFrom(now) }
  await noticingGaps(() => registered(db, registry).updateOne({ _id }, { $set: document }, { upsert: true }))
}

/** False when the process is dead by the others' reckoning. */
export async function renewLease(
  db: Db,
  registry: Registry,
  {
    _id,
    ...change
  }: Pick<RegisteredDocument, '_id'> & Partial<Pick<EngineDocument, 'session_ids' | 'sees_files'>>,
): Promise<boolean> {
  const lease = leaseFrom(await readPrimaryClock(db))
  const { matchedCount } = await noticingGaps(() =>
    registered(db, registry).updateOne({ _id, dead: false }, { $set: { ...change, ...lease } }),
  )
  return matchedCount === 1
}

/** Removes a process that left in good order, or that has been cleared up after. False when another one did that. */
export async function unregister(db: Db, registry: Registry, _id: string): Promise<boolean> {
  return (await registered(db, registry).deleteOne({ _id })).deletedCount === 1
}

/** Marks processes whose lease ran out: they can't renew it any more. */
export async function markDead(db: Db, registry: Registry): Promise<void> {
  const { election, time } = await renewAfterElection(db, registry)
  if (!canJudge()) return
  await registered(db, registry).updateMany(
    { dead: false, lease_election: election, lease_until: { $lt: time } },
    { $set: { dead: true } },
  )
}

/** Notes that the others took over from a dead process. */
export async function noteCleared(db: Db, registry: Registry, _id: string): Promise<void> {
  await registered(db, registry).updateOne({ _id, dead: true, cleared_at: { $exists: false } }, [
    { $set: { cleared_at: '$$NOW' } },
  ])
}

/** Removes the dead ones that the others took over from long ago. */
export async function forgetDead(db: Db, registry: Registry): Promise<void> {
  await registered(db, registry).deleteMany({
    dead: true,
    cleared_at: { $exists: true },
    $expr: { $lt: ['$cleared_at', { $subtract: ['$$NOW', forgetDeadMs] }] },
  })
}

/** Gives each process that hasn't renewed its lease since the last election a whole one; the time that it is now. */
export async function renewAfterElection(db: Db, registry: Registry): Promise<PrimaryClock> {
  const now = await readPrimaryClock(db)
  await noticingGaps(() =>
    registered(db, registry).updateMany(
      { dead: false, lease_election: { $ne: now.election } },
      { $set: leaseFrom(now) },
    ),
  )
  return now
}

export const isAlive = (
  { dead, lease_election, lease_until }: RegisteredDocument,
  { time, election }: PrimaryClock,
): boolean => !dead && ((lease_election ?? null) !== election || lease_until >= time)

/** Ends open transactions, which would keep rows locked for a minute and more. */
export async function killSessions(client: MongoClient, sessionIds: Uint8Array[]): Promise<void> {
  if (sessionIds.length === 0) return
  await client.db('admin').command({ killSessions: sessionIds.map((id) => ({ id: new UUID(id) })) })
}
