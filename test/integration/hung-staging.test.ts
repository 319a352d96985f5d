import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { mkdir, open, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import t from 'tap'
import { createEngineMetrics } from '../../engine/metrics.ts'
import { finalizeImport, type FinalizingContext } from '../../engine/stages/finish/finalize-import.ts'
import { ensureSchema } from '../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { DiskReserve } from '../../shared/storage/staging/disk-reserve.ts'
import { openStaging } from '../../shared/storage/staging/open-staging.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { StagedQuota } from '../../shared/storage/uploads/staged-quota.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { storedImport } from '../helpers/stored-import.ts'
import { noKeys } from '../helpers/no-keys.ts'
import { until } from '../helpers/service.ts'

/** A file server that hangs: all threads of this process for files wait in a FIFO, so that no other read or write ends. */

const { database, folder } = await databaseAndFolder(t)
const { collections } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const location = { STAGING: 'disk', DATA_DIR: folder } as const
const uploads = openUploads(location, database)

const context: FinalizingContext = {
  ...{ database, log, uploads, secrets: noKeys, metrics: createEngineMetrics(new Registry()) },
  staging: openStaging(location, collections),
  quota: new StagedQuota({ collections, limits: { bytes: Infinity, imports: 10 } }),
}

const ids = [1, 2, 3, 4, 5, 6]
for (const id of ids) {
  const now = new Date()
  await mkdir(path.join(folder, 'staging', String(id)), { recursive: true })
  await writeFile(path.join(folder, 'staging', String(id), 'content'), 'a@example.com\n')
  await collections.imports.insertOne({
    ...storedImport({ _id: id, mailing_list_id: id, state: 'cancelled', finished_at: now }),
    ...{ source: { type: 'json', filename: 'data', url: null }, holds_list: true },
  })
}
const finalize = async (id: number) =>
  finalizeImport((await collections.imports.findOne({ _id: id }))!, context)

// A login needs one of the threads that hang below. So all connections are made before.
const connections = 2 * ids.length
let made = 0
database.client.on('connectionReady', () => (made += 1))
const useAll = async () => {
  const slowRead = () => collections.imports.findOne({ _id: 1, $where: 'sleep(200) || true' })
  await Promise.all(Array.from({ length: connections }, slowRead))
  return made
}
// One was made when the database was opened.
await until('connections', useAll, (count) => count >= connections - 1)

const fifo = path.join(folder, 'fifo')
execFileSync('mkfifo', [fifo])
const letGo = () => closeSync(openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK))

/** Resolves to "late" when the work takes longer. */
const within = (ms: number, work: Promise<unknown>) => Promise.race([work, sleep(ms, 'late', { ref: false })])

t.test('other work goes through while a file server hangs', { timeout: 300_000 }, async (t) => {
  const reserve = new DiskReserve({ STAGING: 'disk', DATA_DIR: folder, DISK_RESERVE_MB: 1 })
  await reserve.check()
  const threads = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4)
  const reads = Array.from({ length: threads }, () => open(fifo, 'r'))

  t.test('ended imports are finalized all the same, and their files wait', async (t) => {
    t.same(await within(30_000, Promise.all(ids.map(finalize))), [true, true, true, true, true, true])
    t.equal(await collections.imports.countDocuments({ finalized: true, holds_list: { $exists: false } }), 6)
  })

  t.test('the disk that says nothing has no space', async (t) => {
    const message = /the file system of .* hasn't reported for \d+ s how much space is free/
    await t.rejects(within(10_000, reserve.check()), { name: 'DiskReserveReached', message })
    const again = within(1_000, reserve.check())
    await t.rejects(again, { name: 'DiskReserveReached', message }, 'who asks then is told at once')
  })

  t.test('work that hung ends when the file server is back', async (t) => {
    letGo()
    for (const handle of await Promise.all(reads)) await handle.close()
    const left = () => readdir(path.join(folder, 'staging'))
    await until('the removals', left, (names) => names.length === 0)
    t.same(await left(), [])
    await until(
      'space',
      () =>
        reserve.check().then(
          () => true,
          () => false,
        ),
      (hasSpace) => hasSpace,
    )
  })
})
