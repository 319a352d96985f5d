import type { Collection, Db, Document } from 'mongodb'
import t from 'tap'
import { ensureSchema } from '../../shared/runtime/database.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { enforcePendingFences, preemptChunks, type FenceContext } from '../../shared/store/fence.ts'
import { cancelImport, pauseImport } from '../../shared/store/imports.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { createList, startService, until, type Call } from '../helpers/service.ts'
import { storedChunk, storedImport } from '../helpers/stored-import.ts'

/** Members that lag keep a write from a majority: that is no lock, and what was done is done. */

t.setTimeout(300_000)
const set = await startReplicaSet(t, 3)

t.test('pauses and cancels take effect while the other members lag', { timeout: 180_000 }, async (t) => {
  const { database } = await databaseAndFolder(t, set.uri)
  const { collections } = database
  const log = createLogger({ process: 'test', level: 'silent' })
  const warnings: unknown[] = []
  log.warn = (...said: unknown[]) => void warnings.push(said)
  const context: FenceContext = { database, log }
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const primary = await set.primary()
  const others = [0, 1, 2].filter((member) => member !== primary)
  /** Makes members answer without applying anything; a suspended one would make the primary step down. */
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
    t.match(await collections.chunks.findOne({}), fenced, 'and no engine has a chunk')
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

for (const { name, commandName, write, importState, chunk } of [
  {
    name: 'a pause',
    commandName: 'findAndModify',
    write: (context: FenceContext) => pauseImport(context, 1),
    importState: 'paused',
    chunk: { state: 'ready', token: null, fence: 1 },
  },
  {
    name: "the end of chunks' leases",
    commandName: 'update',
    write: (context: FenceContext) => preemptChunks(context, [1]),
    importState: 'importing',
    chunk: { state: 'ready', token: null },
  },
])
  t.test(`${name} is not answered as done when the only member that has it dies`, async (t) => {
    const { database } = await databaseAndFolder(t, `${set.uri}&monitorCommands=true`)
    const { imports, chunks } = database.collections
    const log = createLogger({ process: 'test', level: 'silent' })
    await ensureSchema(database.db, log)
    await imports.insertOne(storedImport({ _id: 1, state: 'importing', holds_list: true }))
    await chunks.insertOne(storedChunk(1, 0, { state: 'running', token: 't', engine_id: 'e' }))
    const { primary, fetching } = await stopFetching(database.db)

    // The primary dies as soon as it has answered that no majority has the write.
    const died = Promise.withResolvers()
    database.client.on('commandSucceeded', (event) => {
      const isUnconfirmed = (event.reply as Document)['writeConcernError'] !== undefined
      if (event.commandName === commandName && isUnconfirmed) void set.kill(primary).then(died.resolve)
    })
    const written = write({ database, log })
    await died.promise
    await fetching('off')
    await written
    t.match(await imports.findOne({}), { state: importState })
    t.match(await chunks.findOne({}), chunk)
    await set.restart(primary)
  })

/** Keeps all writes to the primary alone until `fetching('off')`. */
async function stopFetching(db: Db) {
  const primary = await set.primary()
  const others = [0, 1, 2].filter((member) => member !== primary)
  const fetching = async (mode: 'alwaysOn' | 'off'): Promise<void> => {
    for (const member of others) await set.command({ configureFailPoint: 'stopReplProducer', mode }, member)
  }
  await fetching('alwaysOn')
  const isHeard = () =>
    db
      .collection('probe')
      .insertOne({}, { writeConcern: { w: 'majority', wtimeoutMS: 1_000 } })
      .then(
        () => true,
        () => false,
      )
  await until('a write that no other member hears of', isHeard, (heard) => !heard)
  return { primary, fetching }
}

t.test('an answered write survives a failover, although no other member had it at the answer', async (t) => {
  const service = await startService(t, ['control-plane'], { MONGODB_URI: set.uri })
  const { call, collections, client } = service
  const { id: listId } = await createList(service)
  const people = `/mailing_lists/${listId}/subscribers`
  const [changed, deleted] = await Promise.all(
    ['changed', 'deleted'].map((name) =>
      service.post(people, { subscriber: { email: `${name}@example.com` } }),
    ),
  )
  const count = (of: Collection, filter: Document, level: 'local' | 'majority') =>
    of.countDocuments(filter, { readConcern: { level } })
  const subscribers = collections.subscribers as unknown as Collection
  const isChanged = (level: 'local' | 'majority') =>
    count(subscribers, { id: changed.id, status: 'unsubscribed' }, level)
  const isDeleted = async (level: 'local' | 'majority') =>
    1 - (await count(subscribers, { id: deleted.id }, level))
  const named = (collection: string) => () =>
    count(service.db.collection(collection), { name: 'New' }, 'majority')
  const requests: [request: Parameters<Call>, isThere: () => Promise<number>][] = [
    [
      ['PUT', `${people}/${changed.id}`, { subscriber: { status: 'unsubscribed' } }],
      () => isChanged('majority'),
    ],
    [['DELETE', `${people}/${deleted.id}`], () => isDeleted('majority')],
    [['POST', '/mailing_lists', { mailing_list: { name: 'New' } }], named('mailing_lists')],
    [['POST', '/organizations', { organization: { name: 'New' } }], named('organizations')],
    [['POST', '/api_keys', { api_key: { name: 'New' } }], named('api_keys')],
    [
      ['POST', people, { subscriber: { email: 'new@example.com' } }],
      () => count(subscribers, { email: 'new@example.com' }, 'majority'),
    ],
  ]

  const { primary, fetching } = await stopFetching(client.db(service.db.databaseName))

  const answers = requests.map(async ([request, isThere]) => {
    const { status, body } = await call(...request).catch(() => ({ status: 0, body: null }))
    return { what: `${request[0]} ${request[1]}`, isDone: status === 200 && body.success === true, isThere }
  })
  // The primary has done them. An answer that is given now comes before those to a hundred further requests.
  const done = async () => (await isChanged('local')) + (await isDeleted('local'))
  await until('what the primary alone has', done, (number) => number === 2)
  for (let i = 0; i < 100; i += 1) await call('GET', '/mailing_lists')
  await set.kill(primary)
  await fetching('off')
  await set.primary()
  await set.restart(primary)
  for (const { what, isDone, isThere } of await Promise.all(answers)) {
    t.comment(`${what}: ${isDone ? 'done' : 'refused'}`)
    if (isDone) t.equal(await isThere(), 1, what)
  }
})
