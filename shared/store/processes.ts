import type { Database } from '../runtime/database.ts'
import { messageOf } from '../contract/errors.ts'
import type { Logger } from '../runtime/logger.ts'
import { canJudge, isAlive, killSessions, markDead, renewAfterElection, unregister } from './leases.ts'

const names = { 'control-plane': 'a control plane', ftp: 'an FTP server' } as const

/** Ends the transactions of control planes and FTP servers whose lease ran out. They hold nothing else. */
export async function endDeadProcesses(database: Database, log: Logger): Promise<void> {
  const { db, collections } = database
  await markDead(db, 'processes')
  for (const { _id, kind, host, process_id: pid, session_ids } of await collections.processes
    .find({ dead: true })
    .toArray()) {
    await endTransactions(database, session_ids, log)
    if (await unregister(db, 'processes', _id))
      log.warn(
        { host, pid },
        `the lease of ${names[kind]} ran out: process ${pid} on ${host} died or was suspended, and its open transactions are ended`,
      )
  }
}

/**
 * Ends the transactions of dead processes of any kind where no engine is alive to do so. Engines stay registered: the
 * next one takes over from them, and one that was only suspended resumes, which is why a lease is ended only once.
 * `ended` are the leases of the call before; resolves to those of the next one.
 */
export async function endDeadWithoutEngines(
  database: Database,
  ended: ReadonlySet<string>,
  log: Logger,
): Promise<ReadonlySet<string>> {
  const clock = await renewAfterElection(database.db, 'engines')
  if (!canJudge()) return ended
  const engines = await database.collections.engines.find({ cleared_at: { $exists: false } }).toArray()
  if (engines.some((engine) => isAlive(engine, clock))) return new Set()
  await endDeadProcesses(database, log)
  const leases = new Set<string>()
  for (const { _id, host, process_id: pid, session_ids, lease_until } of engines) {
    const lease = `${_id} until ${lease_until.toISOString()}`
    leases.add(lease)
    if (ended.has(lease)) continue
    await endTransactions(database, session_ids, log)
    log.warn(
      { host, pid },
      `no engine is alive: the open transactions of process ${pid} on ${host}, whose lease ran out, are ended; start an engine, which takes over its imports`,
    )
  }
  return leases
}

/** Of a process that works no longer. Never throws: rows that stay locked are better than a process that stays. */
export async function endTransactions(
  { client }: Database,
  sessionIds: Uint8Array[],
  log: Logger,
): Promise<void> {
  await killSessions(client, sessionIds).catch((error: unknown) => {
    log.warn(
      `the sessions of a process that works no longer can't be killed, so rows that it was writing stay locked for up to 90 s: ${messageOf(error)}`,
    )
  })
}
