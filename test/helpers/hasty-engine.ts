import { callbackBounds } from '../../engine/stages/callback/callback-bounds.ts'
import { Engine } from '../../engine/engine.ts'
import { startMaintenance } from '../../engine/jobs/maintenance.ts'
import { takeOverFromEngines } from '../../engine/runner/take-over.ts'
import { createEngineMetrics } from '../../engine/metrics.ts'
import { watchdogBounds } from '../../engine/runner/watchdog.ts'
import { AddressGuard } from '../../shared/net/address-guard.ts'
import { createRegistry } from '../../shared/runtime/metrics/registry.ts'
import { openSecretBox } from '../../shared/store/secrets.ts'
import { runProcess, serveOperations } from '../../shared/runtime/service.ts'
import { downloadBounds } from '../../shared/net/download-bounds.ts'
import { MarkedFolder } from '../../shared/storage/staging/marked-folder.ts'
import { openStaging } from '../../shared/storage/staging/open-staging.ts'
import { startDatabase } from '../../shared/runtime/start-database.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { downloadsSetting, type Downloads } from './hasty-engine-setting.ts'

/**
 * An engine process whose bounds of downloads and answers to look-ups come from the test; see
 * hasty-engine-setting.ts.
 */

const downloads: Downloads = JSON.parse(process.env[downloadsSetting] ?? '{}')
const { bounds = {}, watch = {}, callbacks = {}, answers = {} } = downloads

async function lookup(hostname: string) {
  const left = answers[hostname]
  if (left === undefined)
    throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' })
  const addresses = (left.length > 1 ? left.shift() : left[0]) ?? []
  return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
}

await runProcess('engine', async (process) => {
  const { settings, log } = process
  const database = await startDatabase(process)
  const registry = createRegistry()
  const metrics = createEngineMetrics(registry)
  const folder = process.add(await MarkedFolder.open(settings, database.collections, log))
  const staging = openStaging(settings, database.collections, folder)
  process.add(startMaintenance(takeOverFromEngines(database, log), log))
  const engine = process.add(
    new Engine({
      settings,
      database,
      folder,
      staging,
      uploads: openUploads(settings, database, folder),
      secrets: await openSecretBox(settings, log, folder),
      metrics,
      log,
      guard: new AddressGuard(settings.URL_IMPORT_ALLOW, lookup),
      bounds: { ...downloadBounds, ...bounds },
      watchdogBounds: { ...watchdogBounds, ...watch },
      endProcess: () => {
        process.stop(1)
      },
      callbackBounds: { ...callbackBounds, ...callbacks },
    }),
  )
  const operations = process.add(
    await serveOperations({
      ...{ host: '127.0.0.1', port: 0, hostSetting: 'METRICS_HOST', portSetting: 'ENGINE_METRICS_PORT' },
      registry,
      unreadyBecause: async () => engine.problem,
    }),
  )
  await engine.start()
  process.ready({
    process: 'engine',
    metrics: { engine: `${operations.url}/metrics` },
    mongodb: database.shownUri,
  })
})
