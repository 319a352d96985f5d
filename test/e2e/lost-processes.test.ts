import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { crashAt } from '../helpers/crash-at.ts'
import { Engines } from '../helpers/engines.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { beginLargeImport, someRowsIn } from '../helpers/large-import.ts'
import {
  callerOf,
  createList,
  importEnd,
  startService,
  until,
  type Answer,
  type RunningProcess,
  type Service,
} from '../helpers/service.ts'

/**
 * Processes are killed in an open transaction. Its rows stay locked until another process ends the transaction, after
 * a lease of 12 s and a poll every 3 s. A process that was suspended begins to watch the lease anew. The server itself
 * would take 54 to 80 s.
 */

const maxMs = 45_000

const inCredentials = 'update installation credentials_revision > commitTransaction before 1'
const inPlaces = 'update organizations places_revision > commitTransaction before 1'

/** Lets a process die of a request. Resolves to the time of its death. */
async function dies(process: RunningProcess, request: () => Promise<unknown>): Promise<number> {
  await request().catch(() => undefined)
  await process.stop('SIGKILL')
  if (!process.log().includes('SIGKILL at'))
    throw new Error(`it didn't die in a transaction:\n${process.log()}`)
  return Date.now()
}

/** Repeats what is refused for the moment; resolves to the milliseconds since `from`. */
async function untilDone(
  request: () => Promise<{ isDone: boolean; answer: string }>,
  from: number,
): Promise<number> {
  for (;;) {
    const { isDone, answer } = await request()
    if (isDone) return Date.now() - from
    if (Date.now() - from > 120_000) throw new Error(`refused for 120 s: ${answer}`)
    await sleep(500)
  }
}

const untilTaken = (request: () => Promise<Answer>, from: number): Promise<number> =>
  untilDone(async () => {
    const { status, text } = await request()
    return { isDone: status === 200, answer: text }
  }, from)

/** Waits for the line about a process that was killed: it comes after the end of the open transactions. */
const untilSaid = (process: Pick<RunningProcess, 'log'>, line: RegExp) =>
  until(
    `the line ${line.source}`,
    async () => process.log(),
    (log) => line.test(log),
    10_000,
  )

/** A control plane that survives, an organization with a list, and what is needed to kill further control planes. */
async function controlPlanesToKill(t: Test) {
  const service = await startService(t, ['control-plane'])
  const engines = new Engines(t, service)
  const { post, collections } = service
  const organization = await post('/organizations', {
    organization: { name: 'O', subscriber_limit: 100_000 },
  })
  const list = await createList(service, [], { organization_id: organization.id })
  const add = (call: Service['call'], name: string) =>
    call('POST', `/mailing_lists/${list.id}/subscribers`, { subscriber: { email: `${name}@example.com` } })
  const beginImport = (rows: number) =>
    post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_format: { csv_has_headers: false },
        file_source: {
          type: 'json',
          content: Array.from({ length: rows }, (_, i) => `x${i}@example.com\n`).join(''),
        },
      },
    })
  const survivor = service.processes['control-plane']!
  /** Another control plane, which calls of `service` don't go to. */
  const startDoomed = async (point: string) => {
    const process = await service.start('control-plane', crashAt(point))
    service.processes['control-plane'] = survivor
    return { process, call: callerOf(() => process.ready.http!) }
  }
  const registered = async () => (await collections.processes.find().toArray()).map((each) => each.process_id)
  return { service, engines, survivor, add, beginImport, startDoomed, registered }
}

t.test('control planes that are killed in transactions', { timeout: 400_000 }, async (t) => {
  const { service, engines, survivor, ...helpers } = await controlPlanesToKill(t)
  const { add, beginImport, startDoomed, registered } = helpers
  const { post } = service

  t.test(
    'a key can be revoked, and an import of the organization resumes, after the lease of a killed process',
    async (t) => {
      const leaked = await post('/api_keys', { api_key: { name: 'leaked' } })
      const engine = await engines.start()
      const [first, second] = [await startDoomed(inCredentials), await startDoomed(inPlaces)]
      const killed = await Promise.all([
        dies(first.process, () => first.call('POST', '/api_keys', { api_key: { name: 'k' } })),
        dies(second.process, () => add(second.call, 'a')),
      ])
      const killedAt = Math.max(...killed)
      const { id } = await beginImport(2_000)
      const [revoked, added, imported] = await Promise.all([
        untilTaken(() => service.call('DELETE', `/api_keys/${leaked.id}`), killedAt),
        untilTaken(() => add(service.call, 'b'), killedAt),
        importEnd(service, id).then((view) => {
          t.match(view, { state: 'finished', stats: { subscribers: { added: 2_000 } } })
          return Date.now() - killedAt
        }),
      ])
      t.comment(`revoked after ${revoked} ms, added after ${added} ms, imported after ${imported} ms`)
      for (const time of [revoked, added, imported]) t.ok(time < maxMs, `${time} ms`)
      await until('the end of the killed ones', registered, (pids) => pids.length === 1, 10_000)
      t.same(await registered(), [survivor.child.pid])
      await untilSaid(engine, /the lease of a control plane ran out: process \d+ on /)
      await engines.kill([engine])
      await engines.endLeaseOf(engine)
    },
  )

  t.test('without any engine a control plane ends the transactions of others', async (t) => {
    const leaked = await post('/api_keys', { api_key: { name: 'leaked' } })
    const { id } = await beginImport(3_000)
    const engine = await engines.start(inPlaces)
    await engine.ended
    const { process, call } = await startDoomed(inCredentials)
    const killedAt = await dies(process, () => call('POST', '/api_keys', { api_key: { name: 'k' } }))
    const [revoked, added] = await Promise.all([
      untilTaken(() => service.call('DELETE', `/api_keys/${leaked.id}`), killedAt),
      untilTaken(() => add(service.call, 'c'), killedAt),
    ])
    t.comment(`revoked after ${revoked} ms, added after ${added} ms`)
    for (const time of [revoked, added]) t.ok(time < maxMs, `${time} ms`)
    await untilSaid(survivor, /no engine is alive: the open transactions of process/)
    await engines.start()
    t.match(await importEnd(service, id), { state: 'finished', stats: { subscribers: { added: 1_000 } } })
  })

  t.test('a control plane that stops is registered no more', async (t) => {
    const { process } = await startDoomed('nothing before 1')
    t.equal((await registered()).length, 2)
    t.equal(await process.stop('SIGTERM'), 0)
    t.same(await registered(), [survivor.child.pid])
  })
})

t.test('an FTP server that is killed while it renames a file', { timeout: 400_000 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine'], { STAGING: 'gridfs' })
  const doomed = await service.start(
    'ftp',
    crashAt('update uploads {"name":"b.csv"} > commitTransaction before 1'),
  )
  const other = await service.start('ftp')
  const [session, next] = [await FtpSession.open(doomed.ready.ftp!), await FtpSession.open(other.ready.ftp!)]
  t.match(await session.upload('STOR a.csv', 'a@example.com\n'), /^226/)
  await session.command('RNFR a.csv')
  session.write('RNTO b.csv\r\n')
  await session.ended()
  const killedAt = Date.now()
  t.match(doomed.log(), /SIGKILL at/)
  const renamed = await untilDone(async () => {
    const from = await next.command('RNFR a.csv')
    const answer = from.startsWith('350') ? await next.command('RNTO b.csv') : from
    return { isDone: answer.startsWith('250'), answer }
  }, killedAt)
  t.comment(`renamed after ${renamed} ms`)
  t.ok(renamed < maxMs, `${renamed} ms`)
  const kinds = async () =>
    (await service.collections.processes.find().toArray()).map(({ kind }) => kind).sort()
  await until('the end of the killed one', kinds, (all) => all.length === 2, 10_000)
  t.same(await kinds(), ['control-plane', 'ftp'])
  await untilSaid(service.processes.engine!, /the lease of an FTP server ran out/)
  next.close()
})

t.test('an FTP server that is killed in an upload', { timeout: 200_000 }, async (t) => {
  const service = await startService(t, ['control-plane'], { STAGING: 'gridfs' })
  const doomed = await service.start('ftp', crashAt('findAndModify blob_pieces before 1'))
  const other = await service.start('ftp')
  const [session, next] = [await FtpSession.open(doomed.ready.ftp!), await FtpSession.open(other.ready.ftp!)]
  const data = await session.beginUpload('STOR a.csv')
  data.end('a@example.com\n')
  await session.ended()
  await doomed.stop('SIGKILL')
  const killedAt = Date.now()
  t.match(doomed.log(), /SIGKILL at/)
  const uploaded = await untilDone(async () => {
    const answer = await next.upload('STOR a.csv', 'a@example.com\n').catch(errorMessage)
    return { isDone: answer.startsWith('226'), answer }
  }, killedAt)
  t.comment(`uploaded again after ${uploaded} ms`)
  t.ok(uploaded < maxMs, `${uploaded} ms`)
  next.close()
})

t.test('an FTP server that is killed at each step of an upload', { timeout: 400_000 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine', 'ftp'])
  const { collections } = service
  const survivor = service.processes.ftp!
  const content = 'a@example.com\n'
  const [begin, publish] = ['update', 'findAndModify'].map((name) => `${name} uploads > commitTransaction`)
  /** What is there after the death, by the organization's records. */
  const steps: [at: string, state: string | null][] = [
    [`${begin} before 1`, null],
    [`${begin} after 1`, 'unfinished'],
    [`${publish} before 1`, 'unfinished'],
    [`${publish} after 1`, 'finished'],
  ]
  await Promise.all(
    steps.map(async ([at, state]) => {
      const { id } = await service.post('/organizations', { organization: { name: at } })
      const { key } = await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'ftp' } })
      const isExact = async () => {
        const records = await collections.uploads.find({ organization_id: id }).toArray()
        const bytes = records.reduce((sum, { charged }) => sum + charged, 0)
        const { bytes: charged = 0, files = 0 } = (await collections.ledgers.findOne({ _id: id })) ?? {}
        t.same([charged, files], [bytes, records.length], `${at}: the ledger is the sum of the records`)
        return records.map((record) => record.state)
      }
      const doomed = await service.start('ftp', crashAt(at))
      const session = await FtpSession.open(doomed.ready.ftp!, key)
      await session.upload('STOR a.csv', content).catch(errorMessage)
      await doomed.stop('SIGKILL')
      const killedAt = Date.now()
      t.match(doomed.log(), /SIGKILL at/)
      t.same(await isExact(), state === null ? [] : [state], at)
      const next = await FtpSession.open(survivor.ready.ftp!, key)
      const uploaded = await untilDone(async () => {
        const answer = await next.upload('STOR a.csv', content).catch(errorMessage)
        return { isDone: answer.startsWith('226'), answer }
      }, killedAt)
      t.ok(uploaded < maxMs, `uploaded again after ${uploaded} ms`)
      t.same(await isExact(), ['finished'], at)
      t.equal((await next.download('RETR a.csv')).text, content)
      next.close()
    }),
  )
})

t.test('an engine that dies right after its registration is registered with its sessions', async (t) => {
  const service = await startService(t, ['control-plane'])
  const engines = new Engines(t, service)
  const engine = await engines.start('update engines session_ids after 1')
  await engine.ended
  const { session_ids: sessionIds } = (await engines.documentOf(engine))!
  t.ok(sessionIds.length > 0, `${sessionIds.length} sessions`)
})

t.test('an engine that is judged dead while it works locks no rows', { timeout: 300_000 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  const { collections, client } = service
  const second = await service.start('engine')
  const file = new SubscriberFile({ rows: 500_000, seed: 41 })
  const { id } = await beginLargeImport(service, file)
  await someRowsIn(service, id, 5_000)
  const registered = async () => (await collections.engines.findOne({ process_id: second.child.pid! }))!
  const before = await registered()
  // Just after a renewal it takes longest until the engine notices.
  await until('a renewal', registered, ({ lease_until: until }) => until > before.lease_until, 20_000, 10)
  const { session_ids: sessionIds } = await registered()
  await collections.engines.updateOne({ _id: before._id }, { $set: { dead: true } })
  const takenAt = Date.now()
  await until(
    'its new life',
    async () => second.log(),
    (log) => log.includes('it registers under a new id'),
    30_000,
  )
  const openTransactions = () =>
    client
      .db('admin')
      .aggregate(
        [
          { $currentOp: { allUsers: true, idleSessions: true } },
          { $match: { transaction: { $exists: true }, 'lsid.id': { $in: sessionIds } } },
        ],
        { readConcern: { level: 'local' } },
      )
      .toArray()
  await until('the end of its transactions', openTransactions, (open) => open.length === 0, 20_000, 100)
  t.comment(`its last transaction ended ${Date.now() - takenAt} ms after it was taken for dead`)
  // A fast machine may have imported all of it by now.
  const { body } = await service.call('POST', `/subscriber_imports/${id}/pause`)
  if (body.success === true) await service.post(`/subscriber_imports/${id}/unpause`)
  else t.match(body.error_message, /it is finished/)
  const view = await importEnd(service, id, 200_000)
  t.match(view, { state: 'finished', stats: { subscribers: file.expectedCounts() } })
  t.equal(await collections.engines.countDocuments({ dead: false }), 2)
})
