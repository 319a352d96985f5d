import { MongoWriteConcernError, type Db, type Document } from 'mongodb'
import t from 'tap'
import { ensureSchema } from '../../shared/runtime/ensure-schema.ts'
import { driverRetryReason } from '../../shared/runtime/driver-errors.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { enforcePendingFences, preemptWrites, type FenceContext } from '../../shared/store/fence.ts'
import { cancelImport, pauseImport } from '../../shared/store/imports.ts'
import { wrongCounters } from '../campaigns/observed-end.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { crashAt } from '../helpers/crash-at.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { createList, importEnd, resume, startService, until, type Call } from '../helpers/service.ts'
import { leaseOf, storedChunk, storedImport } from '../helpers/stored-import.ts'

/** Members that lag keep a write from a majority: that is no lock, and what was done is done. */

t.setTimeout(300_000)
const set = await startReplicaSet(t, 3)

t.test('pauses and cancels take effect while the other members lag', { timeout: 180_000 }, async (t) => {
  const { database } = await databaseAndFolder(t, set.uri)
  const { collections } = database
  const log = createLogger({ process: 'test', level: 'silent' })
  let warnings: unknown[] = []
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
    await collections.chunks.insertOne(
      storedChunk(1, 0, { state: 'running', ...leaseOf({ token: 't', holder: 'e' }) }),
    )
  }
  const fenced = { state: 'ready', lease: { token: null }, fence: 1 }

  for (const [move, state] of [
    [pauseImport, 'paused'],
    [cancelImport, 'cancelled'],
  ] as const) {
    const { moved, chunk } = await repeatWhile(
      async () => {
        warnings = []
        await prepare()
        await lag('alwaysOn')
        const moving = move(context, 1)
        await new Promise((resolve) => setTimeout(resolve, 4_000))
        await lag('off')
        return { moved: await moving, chunk: await collections.chunks.findOne({}) }
      },
      // A primary that stands still for 2 s can't be told from one whose rows an engine has locked.
      () => warnings.length > 0,
    )
    t.match(moved, { state, fence: 1 }, 'it is answered as done')
    t.match(chunk, fenced, 'and no engine has a chunk')
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
    commandName: 'commitTransaction',
    write: (context: FenceContext) => pauseImport(context, 1),
    importState: 'paused',
    chunk: { state: 'ready', lease: { token: null }, fence: 1 },
  },
  {
    name: "the end of chunks' leases",
    commandName: 'update',
    write: (context: FenceContext) => preemptWrites(context, [1]),
    importState: 'importing',
    chunk: { state: 'ready', lease: { token: null } },
  },
])
  t.test(`${name} is not answered as done when the only member that has it dies`, async (t) => {
    const { database } = await databaseAndFolder(t, `${set.uri}&monitorCommands=true`)
    const { imports, chunks } = database.collections
    const log = createLogger({ process: 'test', level: 'silent' })
    await ensureSchema(database.db, log)
    await imports.insertOne(storedImport({ _id: 1, state: 'importing', holds_list: true }))
    await chunks.insertOne(storedChunk(1, 0, { state: 'running', ...leaseOf({ token: 't', holder: 'e' }) }))
    const { primary, fetching } = await stopFetching(database.db)

    // The primary dies as soon as it has answered that no majority has the write.
    const died = Promise.withResolvers()
    database.client.on('commandSucceeded', (event) => {
      const isUnconfirmed = (event.reply as Document)['writeConcernError'] !== undefined
      if (event.commandName === commandName && isUnconfirmed) void set.kill(primary).then(died.resolve)
    })
    // The driver repeats a write once. A client repeats what fails all the same, as the reply 503 tells it to.
    const writeAsClient = async (): Promise<void> => {
      try {
        await write({ database, log })
      } catch (error) {
        if (driverRetryReason(error) === null) throw error
        await write({ database, log })
      }
    }
    const written = writeAsClient()
    await died.promise
    await fetching('off')
    await set.elect()
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
        (error: unknown) => {
          if (error instanceof MongoWriteConcernError) return false
          throw error
        },
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
  type Level = 'local' | 'majority'
  const count = (name: string, filter: Document, level: Level) =>
    service.db.collection(name).countDocuments(filter, { readConcern: { level } })
  const isChanged = (level: Level) => count('subscribers', { id: changed.id, status: 'unsubscribed' }, level)
  const isDeleted = async (level: Level) => 1 - (await count('subscribers', { id: deleted.id }, level))
  // A creation raises the counter of ids first, and waits for a majority with that.
  const counters = new Map((await collections.counters.find().toArray()).map(({ _id, next }) => [_id, next]))
  const created = (kind: string, name: string, filter: Document) => (level: Level) =>
    level === 'majority'
      ? count(name, filter, level)
      : count('counters', { _id: kind, next: { $gt: counters.get(kind) ?? 1 } }, level)
  const isNew = { name: 'New' }
  const requests: [request: Parameters<Call>, isThere: (level: Level) => Promise<number>][] = [
    [['PUT', `${people}/${changed.id}`, { subscriber: { status: 'unsubscribed' } }], isChanged],
    [['DELETE', `${people}/${deleted.id}`], isDeleted],
    [['POST', '/mailing_lists', { mailing_list: isNew }], created('mailing_list', 'mailing_lists', isNew)],
    [['POST', '/organizations', { organization: isNew }], created('organization', 'organizations', isNew)],
    [['POST', '/api_keys', { api_key: isNew }], created('api_key', 'api_keys', isNew)],
    [
      ['POST', people, { subscriber: { email: 'new@example.com' } }],
      created('subscriber', 'subscribers', { email: 'new@example.com' }),
    ],
  ]

  const { primary, fetching } = await stopFetching(client.db(service.db.databaseName))

  const answers = requests.map(async ([request, isThere]) => {
    const { status, body } = await call(...request)
    return { what: `${request[0]} ${request[1]}`, status, body, isThere }
  })
  // The primary has them. An answer that is given now comes before those to a hundred further requests.
  const reached = () => Promise.all(requests.map(([, isThere]) => isThere('local')))
  await until('what the primary alone has', reached, (counts) => counts.every((number) => number === 1))
  for (let i = 0; i < 100; i += 1) await call('GET', '/mailing_lists')
  await set.kill(primary)
  await fetching('off')
  await set.elect()
  await set.restart(primary)
  for (const { what, status, body, isThere } of await Promise.all(answers)) {
    const isDone = status === 200 && body.success === true
    if (isDone) t.equal(await isThere('majority'), 1, what)
    else
      t.match({ status, body }, { status: 503, body: { error_code: 'internal_error' } }, `${what}: refused`)
  }
})

for (const { what, rows, commit } of [
  { what: 'a batch', rows: 4_000, commit: 'update import_chunks next_record > commitTransaction' },
  {
    what: 'a small import',
    rows: 2_000,
    commit: 'findAndModify imports number_of_records > commitTransaction',
  },
])
  t.test(`${what} that is lost with its primary is written again, once`, async (t) => {
    const service = await startService(t, ['control-plane'], { MONGODB_URI: set.uri })
    const engine = await service.start('engine', crashAt(`${commit} before 1 SIGSTOP`))
    const { id: listId } = await createList(service)
    const { id } = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_format: { csv_has_headers: false },
        file_source: {
          type: 'json',
          content: Array.from({ length: rows }, (_, row) => `s${row}@example.com\n`).join(''),
        },
      },
    })
    const logOf = async () => engine.log()
    await until('the first commit', logOf, (text) => text.includes('SIGSTOP at'))
    const { primary, fetching } = await stopFetching(service.client.db(service.db.databaseName))
    await resume(engine.child, engine.log)
    const written = (level: 'local' | 'majority') =>
      service.collections.subscribers.countDocuments({ mailing_list_id: listId }, { readConcern: { level } })
    const isWritten = () => written('local')
    await until(`${what} that the primary alone has`, isWritten, (count) => count > 0)
    // It gets no reply before the next primary is asked.
    engine.child.kill('SIGSTOP')
    await set.kill(primary)
    await fetching('off')
    await set.elect()
    t.equal(await written('majority'), 0, 'the next primary has no row')
    engine.child.kill('SIGCONT')
    await set.restart(primary)

    const view = await importEnd(service, id)
    t.match(view, { state: 'finished', stats: { records_imported: rows, subscribers: { added: rows } } })
    t.notMatch(engine.log(), /took over chunks/, 'another try waits for no lease of a chunk')
    const { text } = await service.call('GET', `/subscriber_imports/${id}/logs/added`)
    const emails = text.split('\n').slice(0, -1)
    t.equal(emails.length, rows, 'the log has each row')
    t.equal(new Set(emails).size, rows, 'once')
    const documents = await service.collections.subscribers.find({ mailing_list_id: listId }).toArray()
    t.equal(documents.length, rows, 'and so has the list')
    t.equal(new Set(documents.map((document) => document.id)).size, rows)
    t.same(await wrongCounters(service, listId, documents), [])
  })
