import type { Binary } from 'mongodb'
import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { inTransaction } from '../../../shared/runtime/transactions.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { ProcessRegistration } from '../../../shared/processes/process-registration.ts'
import { endDeadProcesses } from '../../../shared/store/processes.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { until } from '../../helpers/service.ts'

const { database } = await databaseAndFolder(t)
const { processes, counters } = database.collections
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)

/** While it is set, the next question for the primary's time, with which a renewal begins, waits for it. */
let gate: { reached: () => void; opened: Promise<unknown> } | null = null
const gatedDb = new Proxy(database.db, {
  get(target, name) {
    const value = Reflect.get(target, name) as unknown
    if (typeof value !== 'function') return value
    const bound = (value as (...args: unknown[]) => unknown).bind(target)
    if (name !== 'command') return bound
    return async (...args: unknown[]) => {
      const passing = gate
      gate = null
      passing?.reached()
      await passing?.opened
      return bound(...args)
    }
  },
})
const registration = await new ProcessRegistration('control-plane', { ...database, db: gatedDb }, log).start()

/** Session ids as the driver has them. */
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

const unregistered = async () => {
  const registered = await registeredIds()
  return hexOf(database.sessions.ids).filter((id) => !registered.has(id)).length
}

/** Opens one transaction more than there are sessions. */
async function growPool(): Promise<void> {
  const size = database.sessions.ids.length + 1
  let open = 0
  const transactions = Array.from({ length: size }, () =>
    inTransaction(database, async (session) => {
      await counters.findOne({}, { session })
      open += 1
      await until(
        'all transactions',
        async () => open,
        (all) => all >= size,
      )
    }),
  )
  await Promise.all(transactions)
}

const leaseEnd = async () => (await processes.findOne({ kind: 'control-plane' }))!.lease_until.getTime()

t.test('a delayed heartbeat restores no sessions of before', async (t) => {
  const [delayed, opening] = [Promise.withResolvers(), Promise.withResolvers()]
  gate = { reached: () => delayed.resolve(null), opened: opening.promise }
  await delayed.promise
  const before = database.sessions.ids.length
  const growth = growPool()
  const sessions = async () => database.sessions.ids.length
  await until('new sessions', sessions, (count) => count > before)
  // A registration of them that doesn't wait for the delayed one ends during a hundred further commands.
  for (let i = 0; i < 100; i += 1) await database.db.command({ hello: 1 })
  const earlier = await leaseEnd()
  opening.resolve(null)
  await growth
  await until('the delayed renewal', leaseEnd, (end) => end > earlier)
  t.equal(await unregistered(), 0)
})

t.test('sessions that are added after the others removed the registration are registered', async (t) => {
  await processes.deleteMany({})
  await growPool()
  t.equal(await unregistered(), 0)
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
          await processes.updateOne({ _id: before._id }, { $set: { dead: true } })
          await endDeadProcesses(database, log)
          return processes.countDocuments({ _id: before._id })
        },
        (left) => left === 0,
      )
      // The ended transaction delays no other write.
      await counters.updateOne({ _id: 'c0' }, { $inc: { next: 10 } }, { maxTimeMS: 20_000 })
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

t.test('a process that stops is unregistered, whatever its heartbeat does', async (t) => {
  await registration.stop()
  const registered = () => processes.countDocuments({ kind: 'control-plane' })
  // A stop waits for a second at most.
  await until('its end', registered, (count) => count === 0)
  // Another process has the same interval, so that its heartbeat comes after the next one of this process.
  const other = await new ProcessRegistration('ftp', database, log).start()
  const otherLeaseEnd = async () => (await processes.findOne({ kind: 'ftp' }))!.lease_until.getTime()
  const start = await otherLeaseEnd()
  await until('a heartbeat of the other process', otherLeaseEnd, (end) => end > start)
  t.equal(await registered(), 0)
  await other.stop()
})
