import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { ReactionDispatcher } from '../../../engine/jobs/reactions/reaction-dispatcher.ts'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { noCounts } from '../../../shared/contract/schemas/import.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { ensureSchema } from '../../../shared/runtime/database.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { observeDatabase } from '../../../shared/runtime/metrics/database-metrics.ts'
import { openStaging } from '../../../shared/storage/staging/open-staging.ts'
import { observeImports } from '../../../shared/store/import-metrics.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { metricValue } from '../../helpers/metric-value.ts'
import { until } from '../../helpers/service.ts'
import { storedImport } from '../../helpers/stored-import.ts'

/** Values of metrics against values that are known otherwise, so that a unit can't be another one. */

const { database, folder } = await databaseAndFolder(t)
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
  const message = { organization_id: 1, mailing_list_id: 1, kind: 'autoresponder' } as const
  const ofFirst = {
    autoresponder_id: 1,
    subscriber_id: 1,
    reaction: '1:1:request 1',
    pending_subscriber: null,
  }
  await collections.outbox.insertMany(
    [70, 40].map((seconds, i) => ({
      ...{ _id: i + 1, ...message, queue: 1, ...ofFirst, due_at: ago(seconds) },
      ...{ state: 'ready' as const, lease_token: null, leased_until: null },
    })),
  )
  const registry = new Registry()
  observeImports(registry, database, log)
  await between(t, registry, 'rollcall_import_queue_age_seconds', 300, 330)
  await between(t, registry, 'rollcall_outbox_age_seconds', 70, 100)
  await between(t, registry, 'rollcall_import_progress_age_seconds', 0, 30)
  const { monotonicMs } = clock
  clock.monotonicMs = () => monotonicMs() + 120_000
  t.teardown(() => (clock.monotonicMs = monotonicMs))
  await between(t, registry, 'rollcall_import_progress_age_seconds', 120, 150)
  await collections.outbox.deleteMany({})
})

t.test('the lag of reactions is in seconds', async (t) => {
  const engine = { host: 'h', process_id: 1, started_at: ago(60), session_ids: [], folder: 'h:/data' }
  await collections.engines.insertOne({
    ...engine,
    _id: 'alive',
    number: 0,
    dead: false,
    lease_until: ago(-60),
  })
  // What a paused autoresponder holds back is not late, however long ago it would have been due.
  for (const [id, paused, dueAt] of [
    [1, false, ago(50)],
    [2, true, ago(500)],
  ] as const) {
    await collections.autoresponders.insertOne(
      { _id: id, organization_id: 1, name_key: String(id), paused, content_text: 'Hello' } as never,
      { bypassDocumentValidation: true },
    )
    await collections.reactions.insertOne({
      ...{ _id: `1:${id}:request 1`, id, organization_id: 1, mailing_list_id: 1, autoresponder_id: id },
      ...{ subscriber_id: 1, import_id: null, state: 'queued', due_at: dueAt, created_at: dueAt },
    })
  }
  const registry = new Registry()
  const metrics = createEngineMetrics(registry)
  // With this reserve the disk counts as full, so the reaction stays where it is.
  const staging = openStaging({ STAGING: 'disk', DATA_DIR: folder, DISK_RESERVE_MB: 1e12 }, collections)
  const dispatcher = new ReactionDispatcher({
    database,
    staging,
    metrics,
    log,
    engineId: 'alive',
    sessions: [],
  })
  dispatcher.start()
  t.teardown(() => dispatcher.stop())
  await until(
    'a lag',
    async () => metrics.reactionLag,
    (lag) => lag > 0,
  )
  await between(t, registry, 'rollcall_reaction_lag_seconds', 50, 80)
})

t.test('durations of commands are in seconds, as the client and as the server measure them', async (t) => {
  const registry = new Registry()
  observeDatabase(registry, database)
  await collections.imports.findOne({ _id: 1, $where: 'sleep(300) || true' })
  await between(t, registry, 'rollcall_database_operation_duration_seconds_sum', 0.3, 10)
  await between(t, registry, 'rollcall_database_checkout_duration_seconds_sum', 0, 5)
  const { opLatencies, connections, wiredTiger } = await client.db('admin').command({ serverStatus: 1 })
  const seconds = Number(opLatencies.commands.latency) / 1e6
  const spent = 'rollcall_database_server_operation_seconds_total{kind="commands"}'
  await between(t, registry, spent, seconds * 0.5, seconds + 30)
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
