import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Registry } from 'prom-client'
import t from 'tap'
import { processImport } from '../../../engine/process-import.ts'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { MissedFiles } from '../../../engine/scheduler/missed-files.ts'
import type { StepContext } from '../../../engine/scheduler/step.ts'
import { AddressGuard } from '../../../shared/net/address-guard.ts'
import { ensureSchema } from '../../../shared/runtime/database.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import { MarkedFolder } from '../../../shared/storage/staging/marked-folder.ts'
import { openStaging } from '../../../shared/storage/staging/open-staging.ts'
import { claimStep } from '../../../shared/store/import-steps.ts'
import { releaseLeasesOfEngine } from '../../../shared/store/work-leases.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { StagedQuota } from '../../../shared/storage/uploads/staged-quota.ts'
import type { PinnedUpload, UploadPin } from '../../../shared/storage/uploads/upload-store.ts'
import { noKeys } from '../../helpers/no-keys.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { finalizeUpload } from '../../helpers/stable-upload.ts'
import { storedImport } from '../../helpers/stored-import.ts'

const { database, folder } = await databaseAndFolder(t)
const { collections, client } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const location = { STAGING: 'disk', DATA_DIR: folder, MONGODB_DATABASE: database.db.databaseName } as const
const marked = await MarkedFolder.open(location, collections, log)
const staging = openStaging(location, collections)
const uploads = openUploads(location, database)

const upload = path.join(folder, 'uploads', '1', 'rows.csv')
const stagedNames = (id: number) => readdir(path.join(folder, 'staging', String(id))).catch(() => [])

/** Puts the upload there anew, and an import that has begun with it. */
async function beginImport(id: number, pinned: { upload?: ImportDocument['upload'] }): Promise<void> {
  await mkdir(path.dirname(upload), { recursive: true })
  await writeFile(upload, Array.from({ length: 1_000 }, (_, i) => `row${i}@example.com\n`).join(''))
  await collections.imports.insertOne(storedImport({ _id: id, ...pinned }))
}

const pinned = async (importId: number): Promise<UploadPin> =>
  (await uploads.pin({ organizationId: 1, name: 'rows.csv', importId }))!

/**
 * An engine that takes the import's step. `opened` is what it finds behind the pin; `beforeItEnters` runs after its
 * split and before it says so.
 */
async function stepOf(
  id: number,
  engineId: string,
  opened: (file: PinnedUpload) => PinnedUpload | Promise<PinnedUpload> = (file) => file,
  beforeItEnters: () => Promise<void> = () => Promise.resolve(),
): Promise<() => Promise<void>> {
  const token = randomUUID()
  const document = (await claimStep(collections, id, 'splitting', { engineId, token }))!
  const session = client.startSession()
  const metrics = createEngineMetrics(new Registry())
  const context: StepContext = {
    ...{
      session,
      database,
      folder: folderWithEvent(beforeItEnters),
      secrets: noKeys,
      staging,
      quota: new StagedQuota({ collections, uploads, limits: { bytes: Infinity, imports: 10 } }),
      log,
      bounds: downloadBounds,
      watch: () => () => undefined,
      guard: new AddressGuard([]),
      missedFiles: new MissedFiles(metrics),
    },
    ...{ stripe: 'e1', metrics, signal: new AbortController().signal },
    uploads: {
      ...uploads,
      openPin: async (organizationId, pin) => {
        const file = await uploads.openPin(organizationId, pin)
        return file === null ? null : opened(file)
      },
    },
    // A source of this size is split by one thread.
    pool: undefined as never,
  }
  return async () => {
    await processImport(document, token, context)
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
  await beginImport(4, {})
  await finalizeUpload(upload)
  await collections.imports.updateOne(
    { _id: 4 },
    { $set: { upload: { pin: await pinned(4), waiting: null } } },
  )
  const suspended = await stepOf(4, 'suspended', undefined, () => succeed(4, 'suspended'))
  await suspended()
  t.ok(await hasPartition(4), 'the chunks of the successor can be read')
})

/** An upload that is copied, as it looks the same at the second check. */
async function beginCopy(id: number): Promise<{ append: () => Promise<void>; pin: UploadPin }> {
  await beginImport(id, {})
  await finalizeUpload(upload)
  const pin = { ...(await pinned(id)), is_settled: false }
  const waiting = { since: new Date(), fingerprint: pin.fingerprint }
  await collections.imports.updateOne({ _id: id }, { $set: { upload: { pin, waiting } } })
  const file = await open(path.join(folder, 'staging', pin.reference), 'a')
  return {
    pin,
    append: async () => {
      await file.appendFile('late@example.com\n')
      await file.close()
    },
  }
}

t.test('a copy that was taken over removes nothing of its successor', async (t) => {
  const { append } = await beginCopy(5)
  let isCopied = false
  /** Suspended before its second check of the file: its copy is complete, and the successor's too. */
  const suspended = await stepOf(5, 'suspended', (file) => ({
    ...file,
    content: async function* (signal) {
      yield* file.content(signal)
      isCopied = true
    },
    fingerprint: async () => {
      if (isCopied) {
        await succeed(5, 'suspended')
        await append()
      }
      return file.fingerprint()
    },
  }))
  await suspended()
  t.ok(isCopied)
  t.ok(await hasPartition(5), 'the chunks of the successor can be read')
})

t.test('a step that was taken over and finds its upload still being written leaves the files', async (t) => {
  await beginImport(1, {})
  const pin = await pinned(1)
  t.equal(pin.is_settled, false)
  await collections.imports.updateOne({ _id: 1 }, { $set: { upload: { pin, waiting: null } } })
  /** Suspended before its check of the file, until its successor has done the whole step. */
  const suspended = await stepOf(1, 'suspended', async (file) => {
    await finalizeUpload(upload)
    await succeed(1, 'suspended')
    await utimes(upload, new Date(), new Date())
    return file
  })
  await suspended()
  const document = (await collections.imports.findOne({ _id: 1 }))!
  t.match(document, { state: 'importing', number_of_records: 1_000, error_message: null, warnings: [] })
  t.ok(await hasPartition(1), 'the chunks of the successor can be read')
})

t.test('a copy during which the upload was written into is removed, its pin is kept', async (t) => {
  const { append, pin } = await beginCopy(2)
  let isWhole = false
  const step = await stepOf(2, 'copying', (file) => ({
    ...file,
    content: async function* (signal) {
      yield* file.content(signal)
      isWhole = true
      await append()
    },
  }))
  await step()
  t.ok(isWhole)
  t.match(await collections.imports.findOne({ _id: 2 }), { state: 'splitting', lease: { token: null } })
  t.same(await stagedNames(2), [path.basename(pin.reference)])
})

t.test('an upload that is no CSV text while it is written into is read once it is complete', async (t) => {
  const { append } = await beginCopy(6)
  const step = await stepOf(6, 'copying', (file) => ({
    ...file,
    content: async function* () {
      await append()
      yield Buffer.from('<!DOCTYPE html>\n<html><body>This page is replaced by the file.</body></html>\n')
    },
  }))
  await step()
  t.match(await collections.imports.findOne({ _id: 6 }), {
    ...{ state: 'splitting', lease: { token: null }, error_message: null },
    warnings: [/was still being written/],
  })
})

t.test('a pin that an attempt made for itself goes with it', async (t) => {
  await beginImport(3, {})
  await (
    await stepOf(3, 'first')
  )()
  const { upload: noted } = (await collections.imports.findOne({ _id: 3 }))!
  t.match(noted, { pin: null, waiting: { fingerprint: String } })
  t.same(await stagedNames(3), [])
})
