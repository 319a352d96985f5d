import type { Database } from '../runtime/database.ts'
import { errorMessage } from '../contract/errors.ts'
import type { Logger } from '../runtime/logger.ts'
import { isAlive, killSessions, markDead, matchValid, renewAfterElection, unregister } from './leases.ts'

const names = { 'control-plane': 'a control plane', ftp: 'an FTP server' } as const

/** Ends the transactions of control planes and FTP servers whose lease has expired. They have no chunks or steps. */
export async function endDeadProcesses(database: Database, log: Logger): Promise<void> {
  await markDead(database, 'processes')
  for (const { _id, kind, host, process_id: pid, session_ids } of await database.collections.processes
    .find({ dead: true })
    .toArray()) {
    await endTransactions(database, session_ids, log)
    if (await unregister(database, _id))
      log.warn(
        { host, pid },
        `the lease of ${names[kind]} ran out: process ${pid} on ${host} died or was suspended, and its open transactions are ended`,
      )
  }
}

/**
 * Ends the transactions of all dead processes where no engine is alive to do so. Dead engines stay registered: the next
 * engine takes over from them, and one that was only suspended resumes. Each call finds them again, so `ended` has the
 * leases whose transactions earlier calls have ended; resolves to those for the next call.
 */
export async function endDeadWithoutEngines(
  database: Database,
  ended: ReadonlySet<string>,
  log: Logger,
): Promise<ReadonlySet<string>> {
  const { engines: registry } = database.collections
  if ((await registry.findOne(matchValid(database), { projection: { _id: 1 } })) !== null) return new Set()
  const clock = await renewAfterElection(database, 'engines')
  if (!database.local.leaseWatch.canJudge) return ended
  const engines = await registry.find({ cleared_at: { $exists: false } }).toArray()
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

/**
 * Ends the transactions of a dead process. Never throws: locked rows are better than a process that stays registered.
 */
export async function endTransactions(
  { client }: Database,
  sessionIds: Uint8Array[],
  log: Logger,
): Promise<void> {
  await killSessions(client, sessionIds).catch((error: unknown) => {
    log.warn(
      `the sessions of a dead process can't be killed, so rows that it was writing stay locked for up to 90 s: ${errorMessage(error)}`,
    )
  })
}
