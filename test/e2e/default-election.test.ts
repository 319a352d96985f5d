import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { beginHeldImport, beginLargeImport, someRowsIn } from '../helpers/large-import.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { importEnd, startService, until, type Json, type RunningProcess } from '../helpers/service.ts'

/**
 * A primary dies in a replica set with MongoDB's default settings for elections. The others elect a new one after 10 to 14
 * s, which is longer than the lease of 12 s that no engine could renew meanwhile.
 */

const rows = 60_000
const file = new SubscriberFile({ rows, seed: 17 })
const settings = { electionTimeoutMillis: 10_000, heartbeatIntervalMillis: 2_000 }

const lostEngines = (engines: RunningProcess[]) =>
  engines.flatMap((engine) =>
    engine
      .log()
      .split('\n')
      .filter((line) => /registers under a new id|took over from an engine/.test(line)),
  )

t.setTimeout(400_000)
const set = await startReplicaSet(t, 3, settings)
const service = await startService(t, ['control-plane', 'engine'], { MONGODB_URI: set.uri })
const { collections, processes } = service
const first = processes.engine!
const second = await service.start('engine')
const engineIds = async () =>
  (await collections.engines.find({ dead: false }).toArray()).map(({ _id }) => _id).sort()
const controlPlaneIds = async () => (await collections.processes.find().toArray()).map(({ _id }) => _id)

async function checkBalance(t: Test, view: Json): Promise<void> {
  t.match(view, {
    state: 'finished',
    stats: { number_of_records: rows, records_imported: rows, subscribers: file.expectedCounts() },
  })
  const there = { mailing_list_id: view.mailing_list_id }
  t.equal(await collections.subscribers.countDocuments(there), file.expectedCounts().added)
}

t.test('an election ends the lease of no running process, and the import ends exactly', async (t) => {
  const before = [await engineIds(), await controlPlaneIds()]
  const { id } = await beginLargeImport(service, file)
  await someRowsIn(service, id, 1)
  const dead = await set.primary()
  const killedAt = Date.now()
  await set.kill(dead)
  await set.primary()
  const electedMs = Date.now() - killedAt
  const view = await importEnd(service, id, 120_000)
  t.comment(`a new primary after ${electedMs} ms, the import's end after ${Date.now() - killedAt} ms`)
  await checkBalance(t, view)
  t.same(lostEngines([first, second]), [])
  t.same([await engineIds(), await controlPlaneIds()], before)
  await set.restart(dead)
})

t.test('members that lag for longer than a lease make no process count as dead', async (t) => {
  const before = [await engineIds(), await controlPlaneIds()]
  const primary = await set.primary()
  const others = [0, 1, 2].filter((member) => member !== primary)
  const lag = async (mode: 'alwaysOn' | 'off'): Promise<void> => {
    for (const member of others) await set.command({ configureFailPoint: 'rsSyncApplyStop', mode }, member)
  }
  t.teardown(() => lag('off'))
  await lag('alwaysOn')
  // An engine that starts now knows nothing of the stall.
  await sleep(14_000)
  const starting = service.start('engine')
  await sleep(2_000)
  await lag('off')
  const third = await starting
  // A process that judged by leases that could not be renewed would do so in its next poll, three seconds later.
  await sleep(10_000)
  t.same(lostEngines([first, second, third]), [])
  await third.stop()
  t.same([await engineIds(), await controlPlaneIds()], before)
})

t.test('an engine that dies with the primary is taken over from one lease later', async (t) => {
  await until(
    'all members',
    () => set.command({ replSetGetStatus: 1 }),
    ({ members }) => (members as Json[]).every(({ health, state }) => health === 1 && state <= 2),
  )
  const { id, letGo } = await beginHeldImport(service, file)
  await until(
    'chunks in both',
    () => collections.chunks.distinct('lease.holder', { import_id: id, state: 'running' }),
    (engines) => engines.length === 2,
  )
  const killedAt = Date.now()
  await Promise.all([second.stop('SIGKILL'), set.kill(await set.primary())])
  // The locks ended with the primary.
  await letGo().catch(() => undefined)
  await set.primary()
  const electedMs = Date.now() - killedAt
  await until(
    'the take-over',
    async () => first.log(),
    (log) => log.includes('took over from an engine'),
    60_000,
  )
  const tookMs = Date.now() - killedAt
  t.comment(`a new primary after ${electedMs} ms, the take-over ${tookMs - electedMs} ms later`)
  t.ok(tookMs - electedMs < 20_000, 'a lease, and a poll')
  await checkBalance(t, await importEnd(service, id, 120_000))
  t.notMatch(first.log(), /registers under a new id/)
})
