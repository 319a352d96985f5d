import { lookup } from 'node:dns/promises'
import { AuthThrottle, keyHashSecret } from '../shared/store/api-keys.ts'
import type { Settings } from '../shared/runtime/config.ts'
import { errorMessage, StartError } from '../shared/contract/errors.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import { observeDatabase } from '../shared/runtime/metrics/database-metrics.ts'
import { observeDataFolder } from '../shared/storage/disk-metrics.ts'
import { createRegistry } from '../shared/runtime/metrics/registry.ts'
import { ProcessRegistration } from '../shared/processes/process-registration.ts'
import { hostInUrl, runProcess, serveOperations } from '../shared/runtime/service.ts'
import { readinessProblem, startDatabase } from '../shared/runtime/start-database.ts'
import { MarkedFolder } from '../shared/storage/staging/marked-folder.ts'
import { createTransferMetrics } from '../shared/storage/uploads/transfer-metrics.ts'
import { openUploads } from '../shared/storage/uploads/open-uploads.ts'
import { maxSessionsByDescriptors, type SessionLimits } from './connection/connection-limits.ts'
import { createFtpMetrics } from './metrics.ts'
import { startFtpServer, type FtpServerOptions } from './server.ts'
import { uploadLimits } from '../shared/store/ledger.ts'

/** The FTP process only fills upload directories. An import begins by a request to the API, never by an upload. */
await runProcess('ftp', async (process) => {
  const { settings, log } = process
  const database = await startDatabase(process)
  process.add(await new ProcessRegistration('ftp', database, log).start())
  const folder = process.add(await MarkedFolder.open(settings, database.collections, log))
  const registry = createRegistry()
  observeDatabase(registry, database)
  observeDataFolder(registry, settings.DATA_DIR, folder)
  const operations = process.add(
    await serveOperations({
      host: settings.METRICS_HOST,
      port: settings.FTP_METRICS_PORT,
      hostSetting: 'METRICS_HOST',
      portSetting: 'FTP_METRICS_PORT',
      registry,
      unreadyBecause: readinessProblem(database, folder),
    }),
  )
  const server = process.add(
    await startFtpServer({
      host: settings.FTP_HOST,
      port: settings.FTP_PORT,
      passivePorts: settings.FTP_PASSIVE_PORTS,
      publicAddress:
        settings.FTP_PUBLIC_HOST === undefined ? null : await resolveIpv4(settings.FTP_PUBLIC_HOST),
      tls: tlsOptions(settings),
      sessions: sessionLimits(settings, log),
      uploads: openUploads(settings, database, folder),
      uploadLimits: uploadLimits(settings),
      collections: database.collections,
      keyHashSecret: await keyHashSecret(database.collections),
      throttle: new AuthThrottle(database.collections, settings.AUTH_FAILURES_PER_MINUTE, log),
      metrics: createFtpMetrics(registry),
      transfers: createTransferMetrics(registry, ['ftp', 'ftps']),
      log,
    }),
  )
  process.ready({
    process: 'ftp',
    ftp: `ftp://${hostInUrl(settings.FTP_HOST)}:${server.port}`,
    ...(server.implicitTlsPort === null
      ? {}
      : { ftps: `ftps://${hostInUrl(settings.FTP_HOST)}:${server.implicitTlsPort}` }),
    metrics: { ftp: `${operations.url}/metrics` },
    mongodb: database.shownUri,
    mongodb_password_file: null,
  })
})

function tlsOptions(settings: Settings): FtpServerOptions['tls'] {
  const {
    FTP_TLS_CERT: cert,
    FTP_TLS_KEY: key,
    FTPS_PORT: port,
    FTP_TLS_REQUIRED: isRequired,
    FTP_TLS_RESUMPTION_REQUIRED: mustResume,
  } = settings
  return cert === undefined || key === undefined
    ? null
    : { cert, key, implicitPort: port ?? null, isRequired, mustResume }
}

function sessionLimits(settings: Settings, log: Logger): SessionLimits {
  const inProcess = Math.min(settings.FTP_MAX_SESSIONS, maxSessionsByDescriptors())
  if (inProcess < settings.FTP_MAX_SESSIONS)
    log.warn(
      `setting FTP_MAX_SESSIONS ${settings.FTP_MAX_SESSIONS} is reduced to ${inProcess}: the process may not open more files; raise its limit (ulimit -n)`,
    )
  return {
    inProcess,
    perAddress: settings.FTP_MAX_SESSIONS_PER_ADDRESS,
    perAccount: settings.FTP_MAX_SESSIONS_PER_ACCOUNT,
  }
}

async function resolveIpv4(host: string): Promise<string> {
  try {
    return (await lookup(host, { family: 4 })).address
  } catch (error) {
    throw new StartError(
      `setting FTP_PUBLIC_HOST ${JSON.stringify(host)} has no IPv4 address: ${errorMessage(error)}`,
      { cause: error },
    )
  }
}
