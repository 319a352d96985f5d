import t, { type Test } from 'tap'
import { clock } from '../../../shared/runtime/clock.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import {
  heartbeatMs,
  leaseMs,
  markDead,
  readPrimaryClock,
  register,
  renewLease,
} from '../../../shared/store/leases.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

const { database } = await databaseAndFolder(t)
const { db, collections } = database
const { engines } = collections
await ensureSchema(db, createLogger({ process: 'test', level: 'silent' }))

let aheadMs = 0
const { monotonicMs } = clock
clock.monotonicMs = () => monotonicMs() + aheadMs

/** Writes to the register after pauses that add up to one lease. */
async function watchForALease(): Promise<void> {
  for (let passed = 0; passed < leaseMs; passed += heartbeatMs) {
    aheadMs += heartbeatMs
    await markDead(database, 'processes')
  }
}

const earlier = '7fffffff0000000000000000'
const hour = 3_600_000

/** An engine whose lease ends in `ms`, by the clock of an election's primary. */
async function engineWith(t: { name: string }, leaseEndsIn: number, election?: string) {
  const { time } = await readPrimaryClock(database)
  const _id = t.name
  await engines.deleteMany({})
  const engine = { _id, host: 'test', process_id: 1, number: 0, session_ids: [], sees_files: true }
  await register(database, 'engines', engine)
  const lease = { lease_until: new Date(time.getTime() + leaseEndsIn) }
  await engines.updateOne(
    { _id },
    { $set: { ...lease, ...(election === undefined ? {} : { lease_election: election }) } },
  )
  return { _id, document: async () => (await engines.findOne({ _id }))! }
}

/** Asserts that a lease is a full one, given between these times of the primary. */
function assertFullLease(t: Test, until: Date, from: Date, to: Date): void {
  const givenAt = until.getTime() - leaseMs
  t.ok(
    givenAt >= from.getTime() && givenAt <= to.getTime(),
    `${until.toISOString()}, given from ${from.toISOString()} to ${to.toISOString()}`,
  )
}

t.test(
  'a process that has just started judges no other one, nor after a gap in its own writes',
  async (t) => {
    // A standstill of this process would be a gap too.
    const startMs = monotonicMs()
    clock.monotonicMs = () => startMs + aheadMs
    t.teardown(() => (clock.monotonicMs = () => monotonicMs() + aheadMs))
    // Other files of this process may have watched already.
    aheadMs += 2 * heartbeatMs + 1
    const { document } = await engineWith(t, -1)
    await markDead(database, 'engines')
    t.match(await document(), { dead: false })
    await watchForALease()
    // A stall of the database may have begun and ended during this suspension.
    aheadMs += 2 * heartbeatMs + 1
    await markDead(database, 'engines')
    t.match(await document(), { dead: false })
    await watchForALease()
    await markDead(database, 'engines')
    t.match(await document(), { dead: true })
  },
)

t.test('an engine whose lease ran out in this election is dead', async (t) => {
  const { _id, document } = await engineWith(t, -1)
  await markDead(database, 'engines')
  t.match(await document(), { dead: true })
  t.equal(await renewLease(database, 'engines', { _id }), false)
})

for (const [clock, leaseEndsIn] of [
  ['ahead', -hour],
  ['behind', hour],
] as const)
  t.test(
    `a new primary whose clock is ${clock} extends a lease of before its election by one lease`,
    async (t) => {
      const { document } = await engineWith(t, leaseEndsIn, earlier)
      const { time: before } = await readPrimaryClock(database)
      await markDead(database, 'engines')
      const { time, election } = await readPrimaryClock(database)
      const { dead, lease_until, lease_election } = await document()
      t.equal(dead, false)
      t.equal(lease_election, election)
      assertFullLease(t, lease_until, before, time)
      await engines.updateOne({}, { $set: { lease_until: new Date(time.getTime() - 1) } })
      await markDead(database, 'engines')
      t.match(await document(), { dead: true }, 'and no more than one')
    },
  )

t.test(
  'a lease that lies further ahead than its length, as the clock was set back, is cut to it',
  async (t) => {
    const { document } = await engineWith(t, 600_000)
    const { time: before } = await readPrimaryClock(database)
    await markDead(database, 'engines')
    const { time } = await readPrimaryClock(database)
    const { dead, lease_until } = await document()
    t.equal(dead, false, 'a living engine has time to renew it')
    assertFullLease(t, lease_until, before, time)
  },
)

t.test('a lease that was renewed under an earlier election is made whole before it is judged', async (t) => {
  const { _id, document } = await engineWith(t, 0)
  database.local.leaseWatch.lastKnown = { time: new Date(0), election: earlier }
  t.equal(await renewLease(database, 'engines', { _id }), true)
  t.equal((await document()).lease_election, earlier)
  await engines.updateOne({ _id }, { $set: { lease_until: new Date(0) } })
  await markDead(database, 'engines')
  const { dead, lease_election } = await document()
  t.same(
    { dead, lease_election },
    { dead: false, lease_election: (await readPrimaryClock(database)).election },
  )
})

t.test(
  'a lease that a later primary renewed, whose clock is behind, is not judged by the earlier clock',
  async (t) => {
    const { _id, document } = await engineWith(t, 0)
    t.equal(await renewLease(database, 'engines', { _id }), true)
    const command = async (...args: Parameters<typeof db.command>) => {
      const hello = await db.command(...args)
      return { ...hello, localTime: new Date((hello['localTime'] as Date).getTime() + hour) }
    }
    await markDead(
      { ...database, db: { command, collection: db.collection.bind(db) } as unknown as typeof db },
      'engines',
    )
    t.equal((await document()).dead, false)
  },
)
