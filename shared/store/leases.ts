import { UUID, type Filter, type MongoClient } from 'mongodb'
import type { Database } from '../runtime/database.ts'
import type { PrimaryClock } from '../runtime/local-state.ts'
import type { EngineDocument, ProcessDocument, RegisteredDocument } from '../contract/schemas/registration.ts'

/**
 * Leases of processes, by the clock of the primary. shared/contract/schemas/registration.ts says what follows from an
 * expired lease.
 *
 * An election takes 10 to 14 s, in which no process can renew its lease, and the clock of the new primary may differ.
 * So a lease belongs to an election. Leases of an earlier election are renewed in full before any of them is judged,
 * and so are leases that end further ahead than their length: they were made before the primary's clock was set back.
 * A judgement takes election and time from the same answer of a primary, so it is valid even if a later primary executes
 * it. A renewal is one command: it has the time of the primary that executes it, and the last election that this process
 * knows. Where that is an earlier one, the lease is renewed in full before it is judged.
 */

/** After this time a process without renewals is dead. Recovery from a kill -9 takes little longer. */
export const leaseMs = 12_000
export const heartbeatMs = 3_000
/** By then a living engine has noticed that it was marked dead: its renewal was answered or has timed out. */
export const forgetDeadMs = 120_000

/** A longer gap between two writes to the registry shows a stall, after which no lease is judged for a while. */
const maxGapMs = 2 * heartbeatMs

/** Engines have a collection of their own, because queries that count engines must not count other processes. */
type Registry = 'engines' | 'processes'

type Registration = Pick<RegisteredDocument, '_id' | 'host' | 'process_id' | 'session_ids'> &
  (Pick<EngineDocument, 'number' | 'origin' | 'sees_files'> | Pick<ProcessDocument, 'kind'>)

const openRegistry = ({ db }: Database, registry: Registry) => db.collection<RegisteredDocument>(registry)

async function writeAndDetectGap<T>({ local }: Database, write: () => Promise<T>): Promise<T> {
  const result = await write()
  local.leaseWatch.recordWrite(maxGapMs, leaseMs)
  return result
}

/** Reads the time and election of the primary. Throws where the server has just stopped being the primary. */
export async function readPrimaryClock({ db, local }: Database): Promise<PrimaryClock> {
  const now = local.leaseWatch.recordHello(await db.command({ hello: 1 }))
  if (now === null)
    throw new Error('the primary of the database has just stepped down, and leases use its clock')
  return now
}

const newLease = ({ time, election }: PrimaryClock) => ({
  lease_until: new Date(time.getTime() + leaseMs),
  lease_election: election,
})

/** Registers a process with a new lease. Throws a duplicate key error where its number is in use. */
export async function register(
  database: Database,
  registry: Registry,
  { _id, ...registration }: Registration,
): Promise<void> {
  const now = await readPrimaryClock(database)
  const document = { ...registration, dead: false, started_at: now.time, ...newLease(now) }
  await writeAndDetectGap(database, () =>
    openRegistry(database, registry).updateOne({ _id }, { $set: document }, { upsert: true }),
  )
}

/** False when another process has marked this one dead. */
export async function renewLease(
  database: Database,
  registry: Registry,
  {
    _id,
    ...change
  }: Pick<RegisteredDocument, '_id'> & Partial<Pick<EngineDocument, 'session_ids' | 'sees_files'>>,
): Promise<boolean> {
  const lease = { lease_until: fullLease, lease_election: database.local.leaseWatch.lastKnown.election }
  const { matchedCount } = await writeAndDetectGap(database, () =>
    openRegistry(database, registry).updateOne({ _id, dead: false }, [{ $set: { ...change, ...lease } }]),
  )
  return matchedCount === 1
}

/** Removes a control plane or FTP server that has stopped or died. False when another process has removed it. */
export async function unregister({ collections }: Database, _id: string): Promise<boolean> {
  return (await collections.processes.deleteOne({ _id })).deletedCount === 1
}

/** Marks processes with an expired lease as dead. They cannot renew it afterwards. */
export async function markDead(database: Database, registry: Registry): Promise<void> {
  const { election, time } = await renewAfterElection(database, registry)
  if (!database.local.leaseWatch.canJudge) return
  await openRegistry(database, registry).updateMany(
    // A renewal that a later primary executed has the time of that one.
    { dead: false, lease_election: election, lease_until: { $lt: time }, $expr: hasExpired },
    { $set: { dead: true } },
  )
}

/**
 * Records that an engine has stopped. Like a dead one it is remembered for a while, in which a claim may still be
 * carried out under its id.
 */
export async function recordStopped({ collections }: Database, _id: string): Promise<void> {
  await collections.engines.updateOne({ _id, cleared_at: { $exists: false } }, [
    { $set: { dead: true, cleared_at: '$$NOW' } },
  ])
}

/** Records that the work of a dead engine was taken over. */
export async function recordCleared({ collections }: Database, _id: string): Promise<void> {
  await collections.engines.updateOne({ _id, dead: true, cleared_at: { $exists: false } }, [
    { $set: { cleared_at: '$$NOW' } },
  ])
}

/** Removes engines that stopped, or whose work was taken over, after a while. */
export async function removeDead({ collections }: Database): Promise<void> {
  await collections.engines.deleteMany({
    dead: true,
    cleared_at: { $exists: true },
    $expr: { $lt: ['$cleared_at', { $subtract: ['$$NOW', forgetDeadMs] }] },
  })
}

/**
 * Renews all leases of earlier elections in full, and cuts those that end further ahead than a full one. Resolves to the
 * clock of the primary.
 */
export async function renewAfterElection(database: Database, registry: Registry): Promise<PrimaryClock> {
  const now = await readPrimaryClock(database)
  const lease = newLease(now)
  await writeAndDetectGap(database, () =>
    openRegistry(database, registry).updateMany(
      {
        dead: false,
        $or: [{ lease_election: { $ne: now.election } }, { lease_until: { $gt: lease.lease_until } }],
      },
      { $set: lease },
    ),
  )
  return now
}

const fullLease = { $add: ['$$NOW', leaseMs] }
const hasExpired = { $lt: ['$lease_until', '$$NOW'] }

/** Matches processes with a valid lease. All others are to be judged, renewed in full, cut or taken over from. */
export const matchValid = ({ local }: Database): Filter<RegisteredDocument> => ({
  dead: false,
  lease_election: local.leaseWatch.lastKnown.election,
  $expr: { $and: [{ $not: hasExpired }, { $lte: ['$lease_until', fullLease] }] },
})

export const isAlive = (
  { dead, lease_election, lease_until }: RegisteredDocument,
  { time, election }: PrimaryClock,
): boolean => !dead && (lease_election !== election || lease_until >= time)

/** Ends the open transactions of sessions, which would lock rows for a minute and more. */
export async function killSessions(client: MongoClient, sessionIds: Uint8Array[]): Promise<void> {
  if (sessionIds.length === 0) return
  await client.db('admin').command({ killSessions: sessionIds.map((id) => ({ id: new UUID(id) })) })
}
