import { setTimeout as sleep } from 'node:timers/promises'
import type { Binary } from 'mongodb'
import t from 'tap'
import { ensureSchema, inTransaction } from '../../../shared/database.ts'
import { createLogger } from '../../../shared/logger.ts'
import { ProcessRegistration } from '../../../shared/process-registration.ts'
import { endDeadProcesses } from '../../../shared/store/processes.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { until } from '../../helpers/service.ts'

const { database } = await databaseAndFolder(t)
const { processes, counters } = database.collections
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const registration = await new ProcessRegistration('control-plane', database, log).start()

/** Of ids as the driver has them. */
const hexOf = (ids: readonly unknown[]) => ids.map((id) => (id as Binary).toString('hex'))
const registeredIds = async () => new Set(hexOf((await processes.findOne({}))!.session_ids))

t.test('every transaction of many at once is in a session that was registered before it', async (t) => {
  let open = 0
  let unregistered = 0
  const counts = Array.from({ length: 100 }, (_, i) =>
    inTransaction(database, async (session) => {
      await counters.insertOne({ _id: `c${i}`, next: 1 }, { session })
      open += 1
      const [id] = hexOf([session.id!.id])
      if (!(await registeredIds()).has(id!)) unregistered += 1
      await until(
        'a hundred open transactions',
        async () => open,
        (all) => all >= 100,
      )
    }),
  )
  await Promise.all(counts)
  t.equal(unregistered, 0)
  t.equal(await counters.countDocuments(), 100)
  const { size } = await registeredIds()
  t.ok(size >= 100 && size <= 200, `${size} sessions`)
})

t.test(
  'a process that the others took for dead registers anew, and its transactions run again',
  async (t) => {
    const before = (await processes.findOne({}))!
    let runs = 0
    await inTransaction(database, async (session) => {
      runs += 1
      await counters.updateOne({ _id: 'c0' }, { $inc: { next: 1 } }, { session })
      if (runs > 1) return
      // Its heartbeat may renew the lease, or register it anew, between any two of these.
      await until(
        'the end of the registration whose lease has run out',
        async () => {
          await processes.updateOne({ _id: before._id }, { $set: { lease_until: new Date(0) } })
          await endDeadProcesses(database, log)
          return processes.countDocuments({ _id: before._id })
        },
        (left) => left === 0,
      )
      // Another one's write isn't held up by the transaction that was ended.
      await counters.updateOne({ _id: 'c0' }, { $inc: { next: 10 } }, { maxTimeMS: 2_000 })
    })
    t.equal(runs, 2)
    t.match(await counters.findOne({ _id: 'c0' }), { next: 12 })
    const now = await until(
      'its new registration',
      () => processes.findOne({}),
      (document) => document !== null,
    )
    t.not(now!._id, before._id)
    t.same(hexOf(now!.session_ids), hexOf(before.session_ids))
  },
)

t.test('a process that stops is registered no more, whatever its heartbeat does', async (t) => {
  await registration.stop()
  t.equal(await processes.countDocuments(), 0)
  await sleep(3_500)
  t.equal(await processes.countDocuments(), 0)
})
