import { setFlagsFromString } from 'node:v8'
import { AuthThrottle, keyHashSecret } from '../shared/store/api-keys.ts'
import { observeDatabase } from '../shared/runtime/metrics/database-metrics.ts'
import { observeDataFolder } from '../shared/storage/disk-metrics.ts'
import { observeImports } from '../shared/processes/import-metrics.ts'
import { createRegistry } from '../shared/runtime/metrics/registry.ts'
import { ProcessRegistration } from '../shared/processes/process-registration.ts'
import { KeyedMutex } from '../shared/runtime/keyed-mutex.ts'
import { hostInUrl, listen, runProcess } from '../shared/runtime/service.ts'
import { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import { openStaging } from '../shared/storage/staging/open-staging.ts'
import { startDatabase } from '../shared/runtime/start-database.ts'
import { openSecretBox, sealClearSecrets } from '../shared/store/secrets.ts'
import { openUploads } from '../shared/storage/uploads/open-uploads.ts'
import { StagedQuota, stagedLimits } from '../shared/storage/uploads/staged-quota.ts'
import { BodyReader } from './api/body/read-body.ts'
import { KnownCallers } from './api/known-callers.ts'
import { LoginLog } from './api/login-log.ts'
import { pageTokenSecret } from './api/token-paging.ts'
import { PiecePacer } from './api/piece-pacer.ts'
import { createSlots } from './api/slots.ts'
import { transferMatcher } from './api/router.ts'
import { basePath } from './api/scope.ts'
import { Stopping } from './api/stopping.ts'
import { isHash } from './api/validation.ts'
import { createApp } from './app.ts'
import { endpoints } from './endpoints.ts'
import type { ControlPlane } from './control-plane.ts'
import { bootstrap } from './store/bootstrap.ts'
import { boundConnections, connectionLimits } from './http-connections.ts'
import { createHttpServer } from './http-server.ts'
import { ImportWatch } from './resources/subscriber-imports/follow/import-watch.ts'
import { createSubscriberCounts } from './resources/subscriber-counts/service.ts'
import { FieldCache } from './resources/subscribers/service.ts'
import { createSharedReads } from './store/shared-reads.ts'
import { SubscriberWrites } from './store/subscribers-together.ts'
import { Transfers } from './resources/uploads/transfers.ts'

/** The control plane process serves the JSON API. It gives engines work through the database and never calls one. */
await runProcess('control-plane', async (process) => {
  // With a bound of 512 MB, V8 would mark the whole heap whenever it had grown by 40 %, which costs a page a fifth.
  setFlagsFromString('--heap-growing-percent=200')
  const { settings, log } = process
  const database = await startDatabase(process)
  process.add(await new ProcessRegistration('control-plane', database, log).start())
  const folder = process.add(await MarkedFolder.open(settings, database.collections, log))
  const secrets = await openSecretBox(settings, log, folder)
  await sealClearSecrets(database.collections, secrets, log)
  const secret = await keyHashSecret(database.collections)

  const registry = createRegistry()
  const stopping = new AbortController()
  const refusing = new AbortController()
  let url = ''
  let startedFtp: string | null = null
  process.onParentMessage((message) => {
    if (isHash(message) && typeof message['ftp'] === 'string') startedFtp = message['ftp']
  })
  const uploads = openUploads(settings, database, folder)
  const slots = createSlots(refusing.signal, settings)
  const transfers = process.add(new Transfers({ collections: database.collections, registry, log }))
  const deps: ControlPlane = {
    settings,
    database,
    reads: createSharedReads(database, slots),
    subscriberCounts: createSubscriberCounts(database),
    folder,
    staging: openStaging(settings, database.collections, folder),
    uploads,
    stagedQuota: new StagedQuota({
      collections: database.collections,
      limits: stagedLimits(settings),
    }),
    throttle: new AuthThrottle(database.collections, settings.AUTH_FAILURES_PER_MINUTE, log),
    callers: new KnownCallers(database.collections, secret),
    logins: new LoginLog(),
    importWatch: new ImportWatch({
      collections: database.collections,
      secrets,
      log,
      registry,
      stopping: stopping.signal,
    }),
    bodies: process.add(new BodyReader(settings)),
    slots,
    pacer: new PiecePacer(),
    fieldCache: new FieldCache(),
    subscriberWrites: new SubscriberWrites(database),
    importCreations: new KeyedMutex(),
    keyHashSecret: secret,
    pageTokenSecret: pageTokenSecret(secret),
    secrets,
    transfers,
    publicUrl: () => settings.PUBLIC_URL ?? url,
    ftpUrl: () => settings.PUBLIC_FTP_URL ?? startedFtp,
    log,
    stopping: stopping.signal,
  }
  observeDatabase(registry, database)
  observeImports(registry, database, log)
  observeDataFolder(registry, settings.DATA_DIR, folder)
  const http = createHttpServer(createApp(deps, registry), {
    onStopping: () => stopping.abort(new Stopping()),
    onRefuse: () => refusing.abort(),
    isTransfer: transferMatcher(endpoints, basePath),
  })
  boundConnections(http.server, connectionLimits(settings, log), { log, registry })
  const { port } = await listen(http.server, {
    host: settings.HTTP_HOST,
    port: settings.HTTP_PORT,
    hostSetting: 'HTTP_HOST',
    portSetting: 'HTTP_PORT',
  })
  process.add(http)
  // Set at once, because requests are answered from here on, and links in mails begin with it.
  url = `http://${hostInUrl(settings.HTTP_HOST)}:${port}`
  // After the port is open, so that a start that can't listen makes no key.
  const apiKey = await bootstrap(database, {
    configuredKey: settings.BOOTSTRAP_API_KEY,
    keyHashSecret: secret,
  })
  process.keepFirstKey(apiKey)
  process.ready({
    process: 'control-plane',
    http: url,
    metrics: { control_plane: `${url}/metrics` },
    mongodb: database.shownUri,
    mongodb_password_file: null,
    api_key: apiKey,
  })
})
