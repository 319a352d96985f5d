import { observeDatabase } from '../shared/runtime/metrics/database-metrics.ts'
import { observeDataFolder } from '../shared/storage/disk-metrics.ts'
import { observeImports } from '../shared/processes/import-metrics.ts'
import { createRegistry } from '../shared/runtime/metrics/registry.ts'
import { openSecretBox } from '../shared/store/secrets.ts'
import { runProcess, serveOperations } from '../shared/runtime/service.ts'
import { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import { openStaging } from '../shared/storage/staging/open-staging.ts'
import { readinessProblem, startDatabase } from '../shared/runtime/start-database.ts'
import { openUploads } from '../shared/storage/uploads/open-uploads.ts'
import { Engine } from './engine.ts'
import { maintenanceJobs, startMaintenance } from './jobs/maintenance.ts'
import { createEngineMetrics, observeStaging } from './metrics.ts'

/**
 * The engine process. It takes imports from the database, and writes their state and results there. What works under
 * the engine's id (runners, worker threads) is made in registration.ts, anew at each registration.
 */
await runProcess('engine', async (process) => {
  const { settings, log } = process
  const database = await startDatabase(process)
  const folder = process.add(await MarkedFolder.open(settings, database.collections, log))
  const secrets = await openSecretBox(settings, log, folder)
  const staging = openStaging(settings, database.collections, folder)
  const uploads = openUploads(settings, database, folder)

  const registry = createRegistry()
  observeDatabase(registry, database)
  observeImports(registry, database, log)
  observeDataFolder(registry, settings.DATA_DIR, folder)
  observeStaging(registry, staging)
  const metrics = createEngineMetrics(registry)

  const endProcess = () => {
    process.stop(1)
  }
  const engine = new Engine({
    ...{ settings, database, folder, staging, uploads, secrets, metrics, log, endProcess },
  })
  const askReadiness = readinessProblem(database, folder)
  const operations = process.add(
    await serveOperations({
      host: settings.METRICS_HOST,
      port: settings.ENGINE_METRICS_PORT,
      hostSetting: 'METRICS_HOST',
      portSetting: 'ENGINE_METRICS_PORT',
      registry,
      unreadyBecause: async () => (await askReadiness()) ?? engine.problem,
    }),
  )
  for (const job of maintenanceJobs({ database, staging, uploads, log }))
    process.add(startMaintenance(job, log))
  await process.add(engine).start()
  process.ready({
    process: 'engine',
    metrics: { engine: `${operations.url}/metrics` },
    mongodb: database.shownUri,
    mongodb_password_file: null,
  })
})
