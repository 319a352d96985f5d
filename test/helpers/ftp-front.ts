import { MongoClient } from 'mongodb'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import { createFtpMetrics } from '../../ftp/metrics.ts'
import { startFtpServer, type FtpServerOptions } from '../../ftp/server.ts'
import { AuthThrottle, keyHashSecret } from '../../shared/store/api-keys.ts'
import { createTransferMetrics } from '../../shared/storage/uploads/transfer-metrics.ts'
import { clientOptions } from '../../shared/runtime/database.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { openCollections, type Collections } from '../../shared/contract/schemas/collections.ts'
import { SessionPool } from '../../shared/runtime/transactions.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import type { Service } from './service.ts'

/** FTP servers in this process, with options that no setting has; on the service's database and folder. */
export async function ftpFronts(t: Test, service: Service) {
  const client = await MongoClient.connect(service.settings['MONGODB_URI']!, clientOptions)
  t.teardown(() => client.close())
  const collections = openCollections(client.db(service.db.databaseName))
  const log = createLogger({ process: 'ftp', level: 'fatal' })
  /** The uploads with these collections. */
  const openWith = (collections: Collections) =>
    openUploads(
      { STAGING: 'disk', DATA_DIR: service.dataFolder },
      { sessions: new SessionPool(client), collections },
    )
  const base = {
    host: '127.0.0.1',
    port: 0,
    passivePorts: '0',
    publicAddress: null,
    uploads: openWith(collections),
    uploadLimits: { files: Infinity, bytes: Infinity },
    collections,
    keyHashSecret: await keyHashSecret(collections),
    throttle: new AuthThrottle(collections, 100_000, log),
    sessions: { inProcess: 100, perAddress: 100, perAccount: 100 },
    tls: null,
    log,
  }
  const start = async (t: Test, options: Partial<FtpServerOptions> = {}) => {
    const registry = new Registry()
    const all = {
      ...base,
      metrics: createFtpMetrics(registry),
      transfers: createTransferMetrics(registry, ['ftp', 'ftps']),
      ...options,
    }
    const server = await startFtpServer(all)
    t.teardown(() => server.stop())
    const host = all.host.includes(':') ? `[${all.host}]` : all.host
    return {
      ...server,
      registry,
      url: `ftp://${host}:${server.port}`,
      implicitUrl: `ftps://${host}:${server.implicitTlsPort}`,
    }
  }
  return { collections, openWith, start }
}
