import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { ClientSession } from 'mongodb'
import { Registry } from 'prom-client'
import { KnownCallers } from '../../../control-plane/api/known-callers.ts'
import { BodyReader } from '../../../control-plane/api/body/read-body.ts'
import { pageTokenSecret } from '../../../control-plane/api/token-paging.ts'
import { LoginLog } from '../../../control-plane/api/login-log.ts'
import { PiecePacer } from '../../../control-plane/api/piece-pacer.ts'
import { createSlots } from '../../../control-plane/api/slots.ts'
import { createApp } from '../../../control-plane/app.ts'
import { bootstrap } from '../../../control-plane/store/bootstrap.ts'
import type { ControlPlane } from '../../../control-plane/control-plane.ts'
import { ImportWatch } from '../../../control-plane/resources/subscriber-imports/follow/import-watch.ts'
import { createSubscriberCounts } from '../../../control-plane/resources/subscriber-counts/service.ts'
import { FieldCache } from '../../../control-plane/resources/subscribers/service.ts'
import { createSharedReads } from '../../../control-plane/store/shared-reads.ts'
import { SubscriberWrites } from '../../../control-plane/store/subscribers-together.ts'
import { Transfers } from '../../../control-plane/resources/uploads/transfers.ts'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { MissedFiles } from '../../../engine/runner/missed-files.ts'
import type { StepOptions } from '../../../engine/runner/step.ts'
import type { Lane } from '../../../engine/stages/write/lane.ts'
import { BsonWriter } from '../../../engine/stages/write/bson/bson-writer.ts'
import { writeSmallImport } from '../../../engine/stages/write/small-import.ts'
import { cancellation } from '../../../engine/workers/messages.ts'
import { UploadDirectory } from '../../../shared/storage/uploads/upload-directory.ts'
import { AddressGuard } from '../../../shared/net/address-guard.ts'
import { AuthThrottle, keyHashSecret } from '../../../shared/store/api-keys.ts'
import { loadSettings } from '../../../shared/runtime/config.ts'
import { openDatabase, type Database } from '../../../shared/runtime/database.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { KeyedMutex } from '../../../shared/runtime/keyed-mutex.ts'
import { openSecretBox } from '../../../shared/store/secrets.ts'
import { sessionId } from '../../../shared/runtime/transactions.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import { MarkedFolder } from '../../../shared/storage/staging/marked-folder.ts'
import { openStaging, type StagingLocation } from '../../../shared/storage/staging/open-staging.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { StagedQuota, stagedLimits } from '../../../shared/storage/uploads/staged-quota.ts'
import { uploadLimits } from '../../../shared/store/ledger.ts'
import { bootstrapKey, callerOf, type Call } from '../../helpers/service.ts'
import { listeningPort } from '../../helpers/listening-port.ts'

/** A control plane and the parts of an engine and an FTP server, in this process, on a connection of their own. */
export interface Side {
  database: Database
  engineId: string
  call: Call
  /** The context of an engine's steps. */
  context: StepOptions
  /** The session of an engine's steps. */
  stepSession: ClientSession
  lane: Lane
  /** The sessions that an engine keeps open. */
  sessionIds: Uint8Array[]
  folder: string
  /** The upload directory that an FTP client of the organization uses. */
  uploadDirectory: (organizationId: number) => UploadDirectory
  close: () => Promise<void>
}

/** With it, small imports take the long way, whose chunks other processes meet. */
export const chunksOnly: StepOptions['pool'] = {
  writeSmallImport: () => Promise.resolve({ end: 'not_written', reason: 'it is left to the chunks' }),
}

/** Writes small imports in this process. The task is copied, as on its way to a worker. */
const poolOf = (database: Database, lane: Lane): StepOptions['pool'] => ({
  writeSmallImport: (task) => {
    const cancelFlag = new Int32Array(task.cancellation)
    const isStopped = () => Atomics.load(cancelFlag, 0) !== cancellation.run
    return writeSmallImport({ database, lane, isStopped, onBatch: () => undefined }, structuredClone(task))
  },
})

export async function openSide(options: {
  uri: string
  name: string
  folder: string
  number: number
  staging: StagingLocation['STAGING']
}): Promise<Side> {
  const { uri, name, folder, number, staging: kind } = options
  const settings = loadSettings({
    DATA_DIR: folder,
    MONGODB_URI: uri,
    STAGING: kind,
    BOOTSTRAP_API_KEY: bootstrapKey,
    AUTH_FAILURES_PER_MINUTE: '100000',
  })
  const log = createLogger({ process: 'test', level: 'silent' })
  const database = await openDatabase({ uri, name })
  const secret = await keyHashSecret(database.collections)
  await bootstrap(database, { configuredKey: bootstrapKey, keyHashSecret: secret })
  const registry = new Registry()
  const stopping = new AbortController()
  const marked = await MarkedFolder.open(settings, database.collections, log)
  const staging = openStaging(settings, database.collections)
  const uploads = openUploads(settings, database)
  const secrets = await openSecretBox(settings, log, marked)
  const quota = new StagedQuota({
    collections: database.collections,
    limits: stagedLimits(settings),
  })
  const transfers = new Transfers({ collections: database.collections, registry, log })
  const slots = createSlots(stopping.signal, settings)
  const deps: ControlPlane = {
    settings,
    database,
    reads: createSharedReads(database, slots),
    subscriberCounts: createSubscriberCounts(database),
    folder: marked,
    staging,
    uploads,
    stagedQuota: quota,
    secrets,
    transfers,
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
    bodies: new BodyReader(settings),
    slots,
    pacer: new PiecePacer(),
    fieldCache: new FieldCache(),
    subscriberWrites: new SubscriberWrites(database),
    importCreations: new KeyedMutex(),
    keyHashSecret: secret,
    pageTokenSecret: pageTokenSecret(secret),
    publicUrl: () => 'http://127.0.0.1',
    ftpUrl: () => null,
    log,
    stopping: stopping.signal,
  }
  const server = createServer(createApp(deps, registry))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const port = listeningPort(server)
  const metrics = createEngineMetrics(new Registry())
  const stepSession = database.client.startSession()
  const laneSession = database.client.startSession()
  const lane: Lane = {
    session: laneSession,
    stripe: `e${number * 1_024 + 1}`,
    buffer: Buffer.alloc(0),
    batchBuffers: {
      subscribers: new BsonWriter(),
      updates: new BsonWriter(),
      reactions: new BsonWriter(1024),
      failures: new BsonWriter(),
    },
  }
  return {
    database,
    engineId: randomUUID(),
    call: callerOf(() => `http://127.0.0.1:${port}`),
    stepSession,
    context: {
      database,
      folder: marked,
      staging,
      uploads,
      secrets,
      quota,
      guard: new AddressGuard([]),
      bounds: downloadBounds,
      watch: () => () => undefined,
      pool: poolOf(database, lane),
      stripe: `e${number * 1_024}`,
      metrics,
      missedFiles: new MissedFiles(metrics),
      log,
    },
    lane,
    sessionIds: [stepSession, laneSession].map(sessionId),
    folder,
    uploadDirectory: (organizationId) =>
      new UploadDirectory({
        ...{ uploads, folder: null, organizationId, log, limits: uploadLimits(settings) },
      }),
    close: async () => {
      stopping.abort()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await transfers.stop()
      await database.close()
    },
  }
}
