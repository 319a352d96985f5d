import { Registry } from 'prom-client'
import type { Document } from 'mongodb'
import t, { type Test } from 'tap'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { noCounts } from '../../../shared/contract/schemas/import.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { observeDatabase } from '../../../shared/runtime/metrics/database-metrics.ts'
import { observeImports } from '../../../shared/processes/import-metrics.ts'
import { autoresponder } from '../../helpers/autoresponder.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { metricValue } from '../../helpers/metric-value.ts'
import { storedImport } from '../../helpers/stored-import.ts'
import { storedReaction } from '../../helpers/stored-reaction.ts'

/** Values of metrics against values that are known otherwise, so that a unit can't be another one. */

const { database } = await databaseAndFolder(t)
const { collections, client } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const ago = (seconds: number): Date => new Date(Date.now() - seconds * 1_000)

async function between(t: Test, registry: Registry, series: string, min: number, max: number) {
  const value = metricValue(await registry.metrics(), series)
  t.ok(value >= min && value <= max, `${series} is ${value}, not from ${min} to ${max}`)
}

t.test('ages of what waits are in seconds', async (t) => {
  await collections.imports.insertMany([
    storedImport({ _id: 1, state: 'scheduled', started_at: null, begins_at: ago(300) }),
    storedImport({ _id: 2, mailing_list_id: 2, state: 'importing', holds_list: true }),
  ])
  for (const [id, paused] of [
    [1, false],
    [2, true],
  ] as const)
    await collections.autoresponders.insertOne(
      autoresponder({ _id: id, mailing_list_id: 1, name: `${id}`, content_text: 'Hello', paused }),
    )
  // What a paused autoresponder holds back is not late, nor is a message that a sender has.
  await collections.reactions.insertMany([
    storedReaction({ id: 1, due_at: ago(70) }),
    storedReaction({ id: 2, due_at: ago(40) }),
    storedReaction({ id: 3, due_at: ago(500), autoresponder_id: 2 }),
    storedReaction({
      id: 4,
      due_at: ago(600),
      available_at: ago(-60),
      lease: { token: 'a', began_at: ago(0) },
    }),
  ])
  const registry = new Registry()
  observeImports(registry, database, log)
  await between(t, registry, 'rollcall_import_queue_age_seconds', 300, 330)
  await between(t, registry, 'rollcall_outbox_age_seconds', 70, 100)
  await between(t, registry, 'rollcall_import_progress_age_seconds', 0, 30)
  const { monotonicMs } = clock
  clock.monotonicMs = () => monotonicMs() + 120_000
  t.teardown(() => (clock.monotonicMs = monotonicMs))
  await between(t, registry, 'rollcall_import_progress_age_seconds', 120, 150)
})

t.test('durations of commands are in seconds, as the client and as the server measure them', async (t) => {
  const registry = new Registry()
  observeDatabase(registry, database)
  await collections.imports.findOne({ _id: 1, $where: 'sleep(300) || true' })
  await between(t, registry, 'rollcall_database_operation_duration_seconds_sum', 0.3, 10)
  await between(t, registry, 'rollcall_database_checkout_duration_seconds_sum', 0, 5)
  const status = () => client.db('admin').command({ serverStatus: 1 })
  const secondsOf = ({ opLatencies }: Document) => Number(opLatencies.commands.latency) / 1e6
  const before = await status()
  const { opLatencies, connections, wiredTiger } = before
  const series = 'rollcall_database_server_operation_seconds_total{kind="commands"}'
  const seconds = metricValue(await registry.metrics(), series)
  const [min, max] = [secondsOf(before) / 2, secondsOf(await status())]
  t.ok(seconds >= min && seconds <= max, `${series} is ${seconds}, not from ${min} to ${max}`)
  const count = Number(opLatencies.commands.ops)
  await between(
    t,
    registry,
    'rollcall_database_server_operations_total{kind="commands"}',
    count / 2,
    count * 2,
  )
  await between(t, registry, 'rollcall_database_server_connections', 1, connections.current * 2)
  const bytes = Number(wiredTiger.cache['maximum bytes configured'])
  await between(t, registry, 'rollcall_database_server_cache_bytes', bytes, bytes)
  const used = Number(wiredTiger.cache['bytes currently in the cache']) / bytes
  await between(t, registry, 'rollcall_database_server_cache_ratio{kind="used"}', used / 2, used * 2)
})

t.test('a batch counts its bytes and its time in seconds', async (t) => {
  const registry = new Registry()
  const metrics = createEngineMetrics(registry)
  metrics.batch({ counts: { ...noCounts(), added: 3, failed: 2 }, bytes: 700, writeMs: 1_500, retries: {} })
  await between(t, registry, 'rollcall_bulk_write_duration_seconds_sum', 1.5, 1.5)
  await between(t, registry, 'rollcall_import_bytes_total{stage="import"}', 700, 700)
  await between(t, registry, 'rollcall_import_rows_total{result="added"}', 3, 3)
  await between(t, registry, 'rollcall_import_rows_total{result="failed"}', 2, 2)
})
