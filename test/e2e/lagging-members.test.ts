import t from 'tap'
import { ensureSchema } from '../../shared/database.ts'
import { createLogger } from '../../shared/logger.ts'
import { enforcePendingFences, type FenceContext } from '../../shared/store/fence.ts'
import { cancelImport, pauseImport } from '../../shared/store/imports.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { storedChunk, storedImport } from '../helpers/stored-import.ts'

/** Members that lag keep a write from a majority: that is no lock, and what was done is done. */

t.test('pauses and cancels while the other members lag', { timeout: 180_000 }, async (t) => {
  const set = await startReplicaSet(t, 3)
  const { database } = await databaseAndFolder(t, set.uri)
  const { collections } = database
  const log = createLogger({ process: 'test', level: 'silent' })
  const warnings: unknown[] = []
  log.warn = (...said: unknown[]) => void warnings.push(said)
  const context: FenceContext = { database, log }
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const primary = await set.primary()
  const others = [0, 1, 2].filter((member) => member !== primary)
  /** They answer, and apply nothing: a suspended one would cost the primary its place. */
  const lag = async (mode: 'alwaysOn' | 'off'): Promise<void> => {
    for (const member of others) await set.command({ configureFailPoint: 'rsSyncApplyStop', mode }, member)
  }
  const prepare = async (): Promise<void> => {
    await Promise.all([collections.imports.deleteMany({}), collections.chunks.deleteMany({})])
    await collections.imports.insertOne(storedImport({ _id: 1, state: 'importing', holds_list: true }))
    await collections.chunks.insertOne(storedChunk(1, 0, { state: 'running', token: 't', engine_id: 'e' }))
  }
  const fenced = { state: 'ready', token: null, fence: 1 }

  for (const [move, state] of [
    [pauseImport, 'paused'],
    [cancelImport, 'cancelled'],
  ] as const) {
    await prepare()
    await lag('alwaysOn')
    const moved = move(context, 1)
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    await lag('off')
    t.match(await moved, { state, fence: 1 }, 'it is answered as done')
    t.match(await collections.chunks.findOne({}), fenced, 'and nobody holds a chunk')
    t.same(warnings, [], 'no engine is blamed')
  }

  const leaveHalfWay = async (): Promise<void> => {
    await prepare()
    await collections.imports.updateOne({ _id: 1 }, { $set: { state: 'paused', fence: 1 } })
  }
  await leaveHalfWay()
  t.equal(await pauseImport(context, 1), null, 'paused already, by a request that died half-way')
  t.match(await collections.chunks.findOne({}), fenced)
  await leaveHalfWay()
  t.equal(await enforcePendingFences(context), 1, 'an engine finds it')
  t.match(await collections.chunks.findOne({}), fenced)
  t.equal(await enforcePendingFences(context), 0)
})
