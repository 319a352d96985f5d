import { randomUUID } from 'node:crypto'
import type { Document } from 'mongodb'
import { Registry } from 'prom-client'
import t from 'tap'
import { processImport } from '../../../engine/process-import.ts'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { MissedFiles } from '../../../engine/runner/missed-files.ts'
import type { StepOptions } from '../../../engine/runner/step.ts'
import {
  progressIndex,
  type SmallImportReport,
  type SmallImportTask,
} from '../../../engine/workers/messages.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { AddressGuard } from '../../../shared/net/address-guard.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import { MarkedFolder } from '../../../shared/storage/staging/marked-folder.ts'
import { openStaging } from '../../../shared/storage/staging/open-staging.ts'
import { claimStep } from '../../../shared/store/import-steps.ts'
import { releaseLeasesOfEngine } from '../../../shared/store/work-leases.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { StagedQuota } from '../../../shared/storage/uploads/staged-quota.ts'
import { noKeys } from '../../helpers/no-keys.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { putUpload } from '../../helpers/stored-uploads.ts'
import { storedImport } from '../../helpers/stored-import.ts'

const { database, folder } = await databaseAndFolder(t)
const { collections, client } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const location = { STAGING: 'disk', DATA_DIR: folder, MONGODB_DATABASE: database.db.databaseName } as const
const marked = await MarkedFolder.open(location, collections, log)
const staging = openStaging(location, collections)
const uploads = openUploads(location, database)

/** Puts the upload there anew, and an import that has begun with it. */
async function beginImport(id: number, changes: Partial<ImportDocument> = {}): Promise<void> {
  await putUpload(
    uploads,
    'rows.csv',
    Array.from({ length: 1_000 }, (_, i) => `row${i}@example.com\n`).join(''),
  )
  const pinned = (await uploads.pin({ organizationId: 1, name: 'rows.csv', importId: id }))!.blob
  await collections.imports.insertOne(storedImport({ _id: id, pinned, ...changes }))
}

/**
 * An engine that takes the import's step. `beforeItEnters` runs after its split and before it says so.
 */
async function stepOf(
  id: number,
  engineId: string,
  beforeItEnters: () => Promise<void> = () => Promise.resolve(),
  changes: Partial<StepOptions> = {},
): Promise<() => Promise<void>> {
  const token = randomUUID()
  const document = (await claimStep(collections, id, 'splitting', { engineId, token }))!
  const session = client.startSession()
  const metrics = createEngineMetrics(new Registry())
  const options: StepOptions = {
    ...{
      database,
      folder: folderWithEvent(beforeItEnters),
      secrets: noKeys,
      staging,
      quota: new StagedQuota({ collections, limits: { bytes: Infinity, imports: 10 } }),
      log,
      bounds: downloadBounds,
      watch: () => () => undefined,
      pool: {
        writeSmallImport: () => Promise.resolve({ end: 'not_written', reason: 'it is left to the chunks' }),
      },
      guard: new AddressGuard([]),
      missedFiles: new MissedFiles(metrics),
    },
    ...{ stripe: 'e1', metrics },
    uploads,
    ...changes,
  }
  return async () => {
    const { signal } = new AbortController()
    await processImport({ document, step: { id, token }, session, signal }, options)
    await session.endSession()
  }
}

/** The folder; something happens when an engine checks whether it still exists. */
const folderWithEvent = (event: () => Promise<void>): MarkedFolder =>
  new Proxy(marked, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      if (name !== 'require') return value.bind(target) as unknown
      return async (options?: { fresh?: boolean }) => {
        if (options?.fresh === true) await event()
        await target.require(options)
      }
    },
  })

/** Another engine takes the step from `engineId` and does all of it. */
async function succeed(id: number, engineId: string): Promise<void> {
  await releaseLeasesOfEngine(collections, engineId, { died: true })
  await (
    await stepOf(id, 'successor')
  )()
}

async function hasPartition(id: number): Promise<boolean> {
  const document = (await collections.imports.findOne({ _id: id }))!
  if (document.state !== 'importing' || document.partition === null) return false
  const partition = await staging.open(document.partition)
  await partition?.close()
  return partition !== null
}

t.test('a split that was taken over removes nothing of its successor', async (t) => {
  await beginImport(4)
  const suspended = await stepOf(4, 'suspended', () => succeed(4, 'suspended'))
  await suspended()
  t.ok(await hasPartition(4), 'the chunks of the successor can be read')
})

t.test(
  'a small import that waits for a lane is taken for no work that hangs, until its task begins',
  async (t) => {
    const { db } = database
    const unchecked = { bypassDocumentValidation: true }
    const organization: Document = { _id: 1, time_zone_name: 'UTC' }
    const list: Document = { _id: 1, organization_id: 1, primary_key_custom_field_id: null }
    await db.collection('organizations').insertOne(organization, unchecked)
    await db.collection('mailing_lists').insertOne(list, unchecked)
    await beginImport(5, { plan: null })
    const queued = Promise.withResolvers<SmallImportTask>()
    const report = Promise.withResolvers<SmallImportReport>()
    let progress = (): number => 0
    const run = await stepOf(5, 'waiting', undefined, {
      watch: (work) => {
        progress = work.progress
        return () => undefined
      },
      pool: {
        writeSmallImport: (task) => {
          queued.resolve(task)
          return report.promise
        },
      },
    })
    const ended = run()
    const { cancellation: flags } = await queued.promise
    t.ok(progress() < progress(), 'the watchdog sees progress')
    Atomics.add(new Int32Array(flags), progressIndex, 1)
    t.equal(progress(), progress(), 'and none once the task has begun')
    report.resolve({ end: 'lost' })
    await ended
  },
)
