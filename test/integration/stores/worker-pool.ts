import { execFileSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import type { SecondHalfTask } from '../../../engine/stages/split/second-half-scan.ts'
import { startWorkerPool } from '../../../engine/workers/pool.ts'
import { openDatabase } from '../../../shared/runtime/database.ts'
import { registerEngine } from '../../../engine/store/engines.ts'
import { makePlan, utf8Format } from '../../helpers/make-plan.ts'
import { testMongodbUri } from '../../helpers/service.ts'

t.test('second halves of large sources leave half of the lanes to chunks', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-pool-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const name = `test_${randomBytes(6).toString('hex')}`
  const database = await openDatabase({ uri: testMongodbUri(), name })
  const { client, db } = database
  t.teardown(async () => {
    await db.dropDatabase()
    await client.close()
  })
  const engineId = randomUUID()
  await registerEngine(database, {
    _id: engineId,
    host: hostname(),
    process_id: process.pid,
    session_ids: [],
  })
  let lanesAfter: number | null = null
  const pool = startWorkerPool({
    workers: 1,
    start: {
      mongodbUri: testMongodbUri(),
      mongodbDatabase: name,
      stagingLocation: { STAGING: 'disk', DATA_DIR: folder },
      engineId,
      firstStripe: 1,
      laneCounter: new SharedArrayBuffer(4),
    },
    onBatch: () => undefined,
    onSecondHalfEnd: () => (lanesAfter = pool.lanesForChunks()),
    onError: () => undefined,
  })
  t.teardown(() => pool.destroy())

  // An open waits until something is written into it.
  const source = path.join(folder, 'staging', '1', 'source')
  await mkdir(path.dirname(source), { recursive: true })
  execFileSync('mkfifo', [source])
  const task = (output: string): SecondHalfTask => ({
    kind: 'second_half',
    ...{ source: '1/source', output, from: 0, to: 100, borders: [], bufferSize: 1_024, targetBytes: 1_024 },
    ...{ plan: makePlan(), format: utf8Format, cancellation: new SharedArrayBuffer(8) },
    progress: new SharedArrayBuffer(4),
  })
  t.equal(pool.lanesForChunks(), 2)
  const first = pool.runSecondHalf(task('1/first'))
  t.equal(pool.lanesForChunks(), 1)
  t.equal(await pool.runSecondHalf(task('1/second')), null, 'a second one at once is for its own thread')
  t.equal(lanesAfter, null)
  const writer = await open(source, 'w')
  // No part of a source: it can't be read from any position.
  await t.rejects(first)
  await writer.close()
  t.equal(lanesAfter, 2, 'the caller is notified when a second half releases its lane')
})
