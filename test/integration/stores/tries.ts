import { Registry } from 'prom-client'
import { MongoServerError } from 'mongodb'
import t from 'tap'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { MissedFiles } from '../../../engine/runner/missed-files.ts'
import type { StepRun } from '../../../engine/runner/step.ts'
import { endAfterError } from '../../../engine/runner/step-failures.ts'
import { QuotaInUse } from '../../../engine/stages/obtain/source.ts'
import { retryDelayMs, runTransaction } from '../../../engine/stages/write/transaction.ts'
import { ImportError } from '../../../shared/contract/errors.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { DiskReserveReached } from '../../../shared/storage/staging/disk-reserve.ts'
import { MarkedFolder } from '../../../shared/storage/staging/marked-folder.ts'
import { claimStep } from '../../../shared/store/import-steps.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { leaseOf, storedImport } from '../../helpers/stored-import.ts'

/** How often what breaks off is tried again, and after which waits: the table of docs/failures.md. */

const { database, folder: dataFolder } = await databaseAndFolder(t)
const { collections, client } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const location = {
  STAGING: 'disk',
  DATA_DIR: dataFolder,
  MONGODB_DATABASE: database.db.databaseName,
} as const
const folder = await MarkedFolder.open(location, collections, log)

let lastId = 0

/** Ends a step of such an import with an error; resolves to the import after it, and a check of its next try's time. */
async function endStep(error: unknown, changes: Partial<ImportDocument>) {
  lastId += 1
  const id = lastId
  await collections.imports.insertOne(storedImport({ _id: id, mailing_list_id: id, ...changes }))
  const lease = { engineId: 'engine', token: 'token' }
  const document = (await claimStep(collections, id, changes.state ?? 'splitting', lease))!
  const metrics = createEngineMetrics(new Registry())
  const step = { id, token: lease.token }
  const missedFiles = new MissedFiles(metrics)
  const context = { document, step, database, folder, metrics, log, bounds: downloadBounds, missedFiles }
  const before = Date.now()
  await endAfterError(error, context as Partial<StepRun> as StepRun)
  const now = Date.now()
  const after = (await collections.imports.findOne({ _id: id }))!
  const next = after.download.next_attempt_at ?? after.lease.not_before
  const isNextAfter = (seconds: number): boolean => {
    const failedAt = next!.getTime() - seconds * 1_000
    return before <= failedAt && failedAt <= now
  }
  return { after, isNextAfter }
}

t.test(
  'a step that breaks off is tried again after 2, 4, 8 and 16 s, and fails the fifth time',
  async (t) => {
    const broken = new Error('something unexpected')
    for (const [failures, expected] of [2, 4, 8, 16].entries()) {
      const { after, isNextAfter } = await endStep(broken, leaseOf({ tries: failures }))
      t.match(after, { state: 'splitting', lease: { tries: failures + 1 } })
      t.ok(isNextAfter(expected), `${expected} s`)
    }
    const { after } = await endStep(broken, leaseOf({ tries: 4 }))
    t.match(after, { state: 'failed', error_message: /something unexpected \(the last of 5 tries\)/ })
  },
)

t.test('a download is tried again after 10 and 50 s, within 15 minutes', async (t) => {
  const gone = new ImportError('source_unavailable', 'no answer', { retryable: true })
  const download = (attempts: number, minutesLeft: number) => ({
    state: 'downloading' as const,
    download: {
      ...{ attempts, next_attempt_at: null, bytes_received: 0, bytes_expected: null },
      ends_at: new Date(Date.now() + minutesLeft * 60_000),
    },
  })
  for (const [attempts, expected] of [10, 50].entries()) {
    const { after, isNextAfter } = await endStep(gone, download(attempts, 14))
    t.match(after, { state: 'downloading', download: { attempts: attempts + 1 } })
    t.ok(isNextAfter(expected), `${expected} s`)
  }
  t.match((await endStep(gone, download(2, 14))).after, {
    ...{ state: 'failed', error_message: /\(the last of 3 tries\)/ },
  })
  t.match((await endStep(gone, download(1, 0.8))).after, {
    ...{ state: 'failed', error_message: /after the 15 minutes that all tries have/ },
  })
})

t.test('what waits for space or for quota is no failure', async (t) => {
  for (const [error, expected] of [
    [new DiskReserveReached('full'), 10],
    [new QuotaInUse('full'), 2],
  ] as const) {
    const { after, isNextAfter } = await endStep(error, {})
    t.match(after, { state: 'splitting', lease: { tries: 0 } })
    t.ok(isNextAfter(expected), `${expected} s`)
  }
})

t.test('a transaction that can be cut is tried three times, and another one until its timeout', async (t) => {
  const session = client.startSession()
  t.teardown(() => session.endSession())
  const conflict = new MongoServerError({ message: 'WriteConflict', code: 112 })
  let tries = 0
  const attempt = () => {
    tries += 1
    return Promise.reject(conflict)
  }
  const isStopped = () => false
  const cut = { session, attempt, isStopped, timeoutMs: 60_000, isDivisible: true }
  t.same(await runTransaction(cut), { end: 'conflicts' })
  t.equal(tries, 3)
  tries = 0
  const startedAt = performance.now()
  await t.rejects(runTransaction({ session, attempt, isStopped, timeoutMs: 2_000 }), conflict)
  t.ok(performance.now() - startedAt >= 2_000)
  t.ok(tries > 3, `${tries} tries`)
  t.same(await runTransaction({ ...cut, isDivisible: false, isStopped: () => true }), { end: 'stopped' })
})

t.test('waits double up to their maximum, and are up to half shorter or longer', (t) => {
  for (const [tries, ms] of [4, 8, 16, 32, 64, 128, 256, 500, 500].entries()) {
    const waits = Array.from({ length: 200 }, () => retryDelayMs(tries, { firstMs: 4, maxMs: 500 }))
    t.ok(Math.min(...waits) >= ms / 2 && Math.max(...waits) <= ms * 1.5, `try ${tries + 1}: ${ms} ms`)
    t.ok(Math.min(...waits) < ms && Math.max(...waits) > ms, `try ${tries + 1} is spread`)
  }
  t.end()
})
