import type { Document, MongoClient } from 'mongodb'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { clock } from '../clock.ts'
import type { Database } from '../database.ts'
import { pingDatabase } from '../start-database.ts'
import { CachedMetric, registerGauges } from './cached-metric.ts'

/**
 * Metrics that show whether MongoDB is the bottleneck: waits for connections, durations of commands, and the server's
 * latencies, cache, tickets and queues. The driver's command events are not used, because with them it decodes every
 * reply a second time.
 */
export function observeDatabase(registry: Registry, database: Database): void {
  observePool(registry, database.client)
  const admin = database.db.client.db('admin')
  // The same check as in /readyz, so that the two differ for no longer than a reading is cached.
  const up = new CachedMetric(() => pingDatabase(database).then(() => 1), { maxAgeMs: 0 })
  new Gauge({
    name: 'rollcall_database_up',
    help: 'Whether MongoDB answers this process',
    registers: [registry],
    async collect() {
      this.set((await up.value()) ?? 0)
    },
  })
  observeServer(registry, new CachedMetric(async () => serverStats(await admin.command(serverStatus))))
}

const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]

/** For the process's main client only: worker threads have a connection for each lane and never wait for one. */
function observePool(registry: Registry, client: MongoClient): void {
  const registers = [registry]
  const waiting = new Gauge({
    name: 'rollcall_database_checkouts_waiting',
    help: 'Operations that wait for a connection of the pool',
    registers,
  })
  const inUse = new Gauge({
    name: 'rollcall_database_connections_in_use',
    help: 'Connections of the pool with an operation in progress',
    registers,
  })
  const checkouts = new Histogram({
    name: 'rollcall_database_checkout_duration_seconds',
    help: 'Time that operations waited for a connection of the pool',
    buckets: durations,
    registers,
  })
  const uses = new Histogram({
    name: 'rollcall_database_operation_duration_seconds',
    help: 'Time that an operation kept its connection, about one round trip; a command with which an engine waits for wake-ups takes up to 30 s',
    buckets: durations,
    registers,
  })
  const failures = new Counter({
    name: 'rollcall_database_checkout_failures_total',
    help: 'Operations that got no connection',
    registers,
  })
  const since = new Map<string, number>()
  client.on('connectionCheckOutStarted', () => waiting.inc())
  client.on('connectionCheckedOut', ({ address, connectionId, durationMS }) => {
    waiting.dec()
    inUse.inc()
    checkouts.observe(durationMS / 1000)
    since.set(`${address} ${connectionId}`, clock.monotonicMs())
  })
  client.on('connectionCheckOutFailed', () => {
    waiting.dec()
    failures.inc()
  })
  client.on('connectionCheckedIn', ({ address, connectionId }) => {
    const key = `${address} ${connectionId}`
    const startedAt = since.get(key)
    if (startedAt === undefined) return
    since.delete(key)
    inUse.dec()
    uses.observe((clock.monotonicMs() - startedAt) / 1000)
  })
}

/** Without the longest sections, so that it takes the server a millisecond. */
const serverStatus = {
  serverStatus: 1,
  ...Object.fromEntries(
    [
      ...['repl', 'locks', 'metrics', 'tcmalloc', 'network', 'transactions', 'sharding', 'storageEngine'],
      ...['asserts', 'electionMetrics', 'flowControl', 'security', 'indexStats', 'indexBulkBuilder'],
      ...['logicalSessionRecordCache', 'transportSecurity', 'twoPhaseCommitCoordinator', 'mirroredReads'],
    ].map((section) => [section, 0]),
  ),
} satisfies Document

type ServerStats = ReturnType<typeof serverStats>

const kinds = ['reads', 'writes', 'commands', 'transactions']

/**
 * NaN stands for values that are missing: a server's version, its kind (mongos has no cache) and the user's rights
 * decide.
 */
function serverStats(status: Document) {
  const at = (...path: string[]): number => {
    let value: unknown = status
    for (const key of path) value = (value as Record<string, unknown> | undefined)?.[key]
    return value === undefined ? NaN : Number(value)
  }
  const cacheBytes = at('wiredTiger', 'cache', 'maximum bytes configured')
  const tickets = (operation: string) => {
    const recent = at('queues', 'execution', operation, 'available')
    return Number.isNaN(recent) ? at('wiredTiger', 'concurrentTransactions', operation, 'available') : recent
  }
  return {
    connections: at('connections', 'current'),
    queued: {
      read: at('globalLock', 'currentQueue', 'readers'),
      write: at('globalLock', 'currentQueue', 'writers'),
    },
    cache: {
      used: at('wiredTiger', 'cache', 'bytes currently in the cache') / cacheBytes,
      dirty: at('wiredTiger', 'cache', 'tracked dirty bytes in the cache') / cacheBytes,
    },
    cacheBytes,
    tickets: { read: tickets('read'), write: tickets('write') },
    operations: Object.fromEntries(kinds.map((kind) => [kind, at('opLatencies', kind, 'ops')])),
    operationSeconds: Object.fromEntries(
      kinds.map((kind) => [kind, at('opLatencies', kind, 'latency') / 1e6]),
    ),
  }
}

function observeServer(registry: Registry, metric: CachedMetric<ServerStats>): void {
  const known = (values: Record<string, number>) =>
    Object.fromEntries(Object.entries(values).filter(([, value]) => !Number.isNaN(value)))
  const knownAlone = (value: number) => (Number.isNaN(value) ? {} : value)
  registerGauges(registry, metric, [
    {
      name: 'rollcall_database_server_connections',
      help: "Connections of all clients to the server that this process's commands go to",
      of: ({ connections }) => knownAlone(connections),
    },
    {
      name: 'rollcall_database_server_queued_operations',
      help: 'Operations that wait for a lock in the server',
      label: 'operation',
      of: ({ queued }) => known(queued),
    },
    {
      name: 'rollcall_database_server_cache_ratio',
      help: "Share of the server's cache that is used, and that is dirty: from 0.8 and 0.05 on the server evicts, from 0.95 and 0.2 on operations must help",
      label: 'kind',
      of: ({ cache }) => known(cache),
    },
    {
      name: 'rollcall_database_server_cache_bytes',
      help: "Size of the server's cache",
      of: ({ cacheBytes }) => knownAlone(cacheBytes),
    },
    {
      name: 'rollcall_database_server_tickets_available',
      help: 'Operations that the storage engine would admit now; at 0 they wait',
      label: 'operation',
      of: ({ tickets }) => known(tickets),
    },
    {
      name: 'rollcall_database_server_operations_total',
      help: 'Operations of all clients that the server has done, by kind',
      label: 'kind',
      isCounter: true,
      of: ({ operations }) => known(operations),
    },
    {
      name: 'rollcall_database_server_operation_seconds_total',
      help: 'Time that the server has spent on operations of all clients, by kind',
      label: 'kind',
      isCounter: true,
      of: ({ operationSeconds }) => known(operationSeconds),
    },
  ])
}
