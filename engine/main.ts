import { observeDatabase } from '../shared/metrics/database-metrics.ts'
import { observeDisk } from '../shared/metrics/disk-metrics.ts'
import { observeImports } from '../shared/metrics/import-metrics.ts'
import { createRegistry } from '../shared/metrics/registry.ts'
import { openSecretBox } from '../shared/secret-box.ts'
import { runProcess, serveOperations } from '../shared/service.ts'
import { openStaging } from '../shared/staging/open-staging.ts'
import { databaseProblem, startDatabase } from '../shared/start-database.ts'
import { openUploads } from '../shared/uploads/open-uploads.ts'
import { Engine } from './engine.ts'
import { dropImportSecrets } from './maintenance/drop-import-secrets.ts'
import { startChore } from './maintenance/maintenance.ts'
import { purgeLogs } from './maintenance/purge-logs.ts'
import { purgeUploads } from './maintenance/purge-uploads.ts'
import { removeDeletedFieldValues } from './maintenance/remove-deleted-field-values.ts'
import { sweepStaging } from './maintenance/sweep-staging.ts'
import { enforceLimits } from './maintenance/enforce-limits.ts'
import { takeOverFromDeadEngines } from './maintenance/take-over.ts'
import { createEngineMetrics, observeStaging } from './metrics.ts'

/** The engine process: takes imports from the database, nothing else; whatever it says, it says there. */
await runProcess('engine', async (process) => {
  const { settings, log } = process
  const database = await startDatabase(process)
  const secrets = await openSecretBox(settings, log)
  const registry = createRegistry()
  observeDatabase(registry, database)
  observeImports(registry, database.collections, log)
  observeDisk(registry, settings.DATA_DIR)
  const metrics = createEngineMetrics(registry)
  const operations = process.add(
    await serveOperations({
      host: settings.METRICS_HOST,
      port: settings.ENGINE_METRICS_PORT,
      setting: 'ENGINE_METRICS_PORT',
      registry,
      unreadyBecause: databaseProblem(database),
    }),
  )
  const staging = openStaging(settings, database.collections)
  observeStaging(registry, staging)
  const uploads = openUploads(settings, database)
  for (const chore of [
    takeOverFromDeadEngines(database, log),
    enforceLimits(database, log),
    sweepStaging(database, { staging, uploads }, log),
    purgeUploads(uploads, log),
    purgeLogs(database, log),
    removeDeletedFieldValues(database, log),
    dropImportSecrets(database, log),
  ])
    process.add(startChore(chore, log))
  const engine = process.add(new Engine({ settings, database, staging, uploads, secrets, metrics, log }))
  await engine.start()
  process.ready({
    process: 'engine',
    metrics: { engine: `${operations.url}/metrics` },
    mongodb: database.shownUri,
    mongodb_password_file: database.passwordFile,
  })
})
