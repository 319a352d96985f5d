import { UUID, type Db, type MongoClient, type ObjectId } from 'mongodb'
import { clock } from '../runtime/clock.ts'
import type { EngineDocument, ProcessDocument, RegisteredDocument } from '../contract/schemas/registration.ts'

/**
 * Leases of processes, by the clock of the primary. shared/contract/schemas/registration.ts says what follows from an
 * expired lease.
 *
 * An election takes 10 to 14 s, in which no process can renew its lease, and the clock of the new primary may differ.
 * So a lease belongs to an election. Leases of an earlier election are renewed in full before any of them is judged.
 * Each write uses the election and the time of one answer of one primary. It stays true where a later primary
 * executes it.
 */

/** After this time a process without renewals is dead. Recovery from a kill -9 takes little longer. */
export const leaseMs = 12_000
export const heartbeatMs = 3_000
/** By then a living engine has noticed that it was marked dead: its renewal was answered or has timed out. */
const forgetDeadMs = 120_000

/** Engines have a collection of their own, because queries that count engines must not count other processes. */
export type Registry = 'engines' | 'processes'

type Registration = Pick<RegisteredDocument, '_id' | 'host' | 'process_id' | 'session_ids'> &
  (Pick<EngineDocument, 'number' | 'sees_files' | 'folder'> | Pick<ProcessDocument, 'kind'>)

export interface PrimaryClock {
  time: Date
  /** Null through a mongos. */
  election: string | null
}

const openRegistry = (db: Db, registry: Registry) => db.collection<RegisteredDocument>(registry)

/**
 * While the database stalls, no process can renew its lease, and all leases expire. So a process judges others only
 * after its own writes to the registry have had no gap for one lease. These writes wait for a majority too. A gap is
 * a stall, a suspension, or the start of this process.
 */
let lastWriteAt = -Infinity
let judgesFrom = Infinity
/** A lease survives a gap of this length, because it is renewed after a quarter of its duration. */
const maxGapMs = 2 * heartbeatMs

async function writeAndDetectGap<T>(write: () => Promise<T>): Promise<T> {
  const result = await write()
  const now = clock.monotonicMs()
  if (now - lastWriteAt > maxGapMs) judgesFrom = now + leaseMs
  lastWriteAt = now
  return result
}

/** Whether an expired lease proves a dead process. Call it after `renewAfterElection`, whose write reveals a gap. */
export const canJudge = (): boolean => clock.monotonicMs() >= judgesFrom

let lastTime = new Date(0)
/**
 * The database's time at the last renewal, some seconds ago. It is a lower bound of the current time, without a read.
 */
export const lastKnownTime = (): Date => lastTime

/** Reads the time and election of the primary. Throws where the server has just stopped being the primary. */
export async function readPrimaryClock(db: Db): Promise<PrimaryClock> {
  const hello: Hello = await db.command({ hello: 1 })
  if (hello.isWritablePrimary !== true || hello.localTime === undefined)
    throw new Error('the primary of the database has just stepped down, and leases use its clock')
  lastTime = hello.localTime
  return { time: lastTime, election: hello.electionId?.toHexString() ?? null }
}

/** Fields of a reply to `hello`. */
interface Hello {
  isWritablePrimary?: boolean
  localTime?: Date
  electionId?: ObjectId
}

const newLease = ({ time, election }: PrimaryClock) => ({
  lease_until: new Date(time.getTime() + leaseMs),
  lease_election: election,
})

/** Registers a process with a new lease. Throws a duplicate key error where its number is in use. */
export async function register(
  db: Db,
  registry: Registry,
  { _id, ...registration }: Registration,
): Promise<void> {
  const now = await readPrimaryClock(db)
  const document = { ...registration, dead: false, started_at: now.time, ...newLease(now) }
  await writeAndDetectGap(() =>
    openRegistry(db, registry).updateOne({ _id }, { $set: document }, { upsert: true }),
  )
}

/** False when another process has marked this one dead. */
export async function renewLease(
  db: Db,
  registry: Registry,
  {
    _id,
    ...change
  }: Pick<RegisteredDocument, '_id'> & Partial<Pick<EngineDocument, 'session_ids' | 'sees_files'>>,
): Promise<boolean> {
  const lease = newLease(await readPrimaryClock(db))
  const { matchedCount } = await writeAndDetectGap(() =>
    openRegistry(db, registry).updateOne({ _id, dead: false }, { $set: { ...change, ...lease } }),
  )
  return matchedCount === 1
}

/** Removes a process that has stopped, or whose work was taken over. False when another process has removed it. */
export async function unregister(db: Db, registry: Registry, _id: string): Promise<boolean> {
  return (await openRegistry(db, registry).deleteOne({ _id })).deletedCount === 1
}

/** Marks processes with an expired lease as dead. They cannot renew it afterwards. */
export async function markDead(db: Db, registry: Registry): Promise<void> {
  const { election, time } = await renewAfterElection(db, registry)
  if (!canJudge()) return
  await openRegistry(db, registry).updateMany(
    { dead: false, lease_election: election, lease_until: { $lt: time } },
    { $set: { dead: true } },
  )
}

/** Records that the work of a dead process was taken over. */
export async function noteCleared(db: Db, registry: Registry, _id: string): Promise<void> {
  await openRegistry(db, registry).updateOne({ _id, dead: true, cleared_at: { $exists: false } }, [
    { $set: { cleared_at: '$$NOW' } },
  ])
}

/** Removes dead processes whose work was taken over long ago. */
export async function forgetDead(db: Db, registry: Registry): Promise<void> {
  await openRegistry(db, registry).deleteMany({
    dead: true,
    cleared_at: { $exists: true },
    $expr: { $lt: ['$cleared_at', { $subtract: ['$$NOW', forgetDeadMs] }] },
  })
}

/** Renews all leases of earlier elections in full. Resolves to the clock of the primary. */
export async function renewAfterElection(db: Db, registry: Registry): Promise<PrimaryClock> {
  const now = await readPrimaryClock(db)
  await writeAndDetectGap(() =>
    openRegistry(db, registry).updateMany(
      { dead: false, lease_election: { $ne: now.election } },
      { $set: newLease(now) },
    ),
  )
  return now
}

export const isAlive = (
  { dead, lease_election, lease_until }: RegisteredDocument,
  { time, election }: PrimaryClock,
): boolean => !dead && ((lease_election ?? null) !== election || lease_until >= time)

/** Ends the open transactions of sessions, which would lock rows for a minute and more. */
export async function killSessions(client: MongoClient, sessionIds: Uint8Array[]): Promise<void> {
  if (sessionIds.length === 0) return
  await client.db('admin').command({ killSessions: sessionIds.map((id) => ({ id: new UUID(id) })) })
}
