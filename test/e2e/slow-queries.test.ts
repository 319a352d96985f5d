import { ObjectId, type Document } from 'mongodb'
import t, { type Test } from 'tap'
import { purgeLogs } from '../../engine/jobs/purge-logs.ts'
import { openDatabase } from '../../shared/runtime/database.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { failureId } from '../../shared/contract/schemas/import.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type Json,
  type RunningProcess,
} from '../helpers/service.ts'
import { subscriberDocument } from '../helpers/subscriber-document.ts'

/**
 * A database that is slow in proportion to what it examines. The server pauses whenever a query over subscribers has
 * examined a thousand documents, and engines close their sockets after some seconds instead of a minute.
 */

t.setTimeout(300_000)
const set = await startReplicaSet(t, 1)
const service = await startService(t, ['control-plane'], { MONGODB_URI: set.uri })
const { collections, db } = service
const namespace = `${db.databaseName}.subscribers`
const preload = new URL('../helpers/short-socket-timeout.ts', import.meta.url).href

/** Starts an engine, at most three times: a busy database may exceed the short time-out at the start already. */
function startEngine(socketTimeoutMs: number, furtherTries = 2): Promise<RunningProcess> {
  const started = service.start('engine', {
    NODE_OPTIONS: `--import=${preload}`,
    ROLLCALL_TEST_SOCKET_TIMEOUT_MS: String(socketTimeoutMs),
  })
  if (furtherTries === 0) return started
  return started.catch((error: unknown) => {
    if (!/timed? ?-?out/i.test(String(error))) throw error
    return startEngine(socketTimeoutMs, furtherTries - 1)
  })
}

/** Sets a fail point until the test's end. */
async function failPoint(t: Test, name: string, mode: unknown, data: Document): Promise<void> {
  t.teardown(() => set.command({ configureFailPoint: name, mode: 'off' }))
  await set.command({ configureFailPoint: name, mode, data })
}

/** The query with which a step plans its import. */
const planQuery = {
  failCommands: ['aggregate'],
  namespace: `${db.databaseName}.mailing_lists`,
  appName: 'rollcall',
}

const rest = (t: Test, ms: number) =>
  failPoint(t, 'setYieldAllLocksWait', 'alwaysOn', { namespace, waitForMillis: ms })

/** A list of that many unsubscribed subscribers, and one active one that sorts before them. */
async function listOf(unsubscribed: number): Promise<Json> {
  const list = await createList(service)
  const { next: firstId = 1 } = (await collections.counters.findOne({ _id: 'subscriber' })) ?? {}
  await collections.counters.updateOne(
    { _id: 'subscriber' },
    { $set: { next: firstId + unsubscribed + 1 } },
    { upsert: true },
  )
  await collections.subscribers.insertMany([
    subscriberDocument(list.id, 'active@example.com', firstId),
    ...Array.from({ length: unsubscribed }, (_, i) => ({
      ...subscriberDocument(list.id, `u${String(i).padStart(6, '0')}@example.com`, firstId + 1 + i),
      status: 'unsubscribed' as const,
    })),
  ])
  await collections.subscriberCounts.insertOne({
    ...{ _id: `${list.id}:a0`, organization_id: list.organization_id, mailing_list_id: list.id },
    // More than the list has: the search resumes while half of them could be absent.
    ...{ active: 10, bounced: 0, unsubscribed, scomp: 0, deactivated: 0 },
  })
  return list
}

const create = async (listId: number, content: string): Promise<number> =>
  (
    await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
      subscriber_import: {
        ...{ column_mapping: ['email'], file_format: { csv_has_headers: false } },
        deactivate_subscribers_not_in_import: true,
        file_source: { type: 'json', content },
      },
    })
  ).id

const documentOf = async (id: number) => (await collections.imports.findOne({ _id: id }))!
const chunkOf = async (id: number) => (await collections.chunks.findOne({ import_id: id }))!

/** Kills an engine, and another one takes over at once. */
async function kill(engine: RunningProcess): Promise<void> {
  await engine.stop('SIGKILL')
  await collections.engines.updateMany({ process_id: engine.child.pid! }, { $set: { dead: true } })
}

/** The keys at which queries or updates over subscribers began during the work. */
async function startsOf(op: 'query' | 'update', work: () => Promise<unknown>): Promise<string[]> {
  await db.command({ profile: 2 })
  await work()
  await db.command({ profile: 0 })
  const profile = db.collection('system.profile')
  const entries = await profile.find({ ns: namespace, op }).sort({ ts: 1 }).toArray()
  await profile.drop()
  const keys = entries.map(({ command }) => (op === 'query' ? command.filter : command.q)?._id?.$gte)
  return keys.filter((key) => key !== undefined)
}

t.test('a list whose search takes longer than a query may is searched in pieces', async (t) => {
  const list = await listOf(10_000)
  await rest(t, 400)
  const startedAt = performance.now()
  t.same(await collections.subscribers.find({ _id: { $gt: `${list.id}:u` }, status: 'active' }).toArray(), [])
  t.ok(performance.now() - startedAt > 3_500, 'searched at once it takes longer than the sockets wait')

  const counting = await startEngine(3_000)
  const id = await create(list.id, 'new@example.com\n')
  const isFurther = (key: string | null | undefined, than: string) => (key ?? '') > `${list.id}:${than}`
  await until(
    'a note of the search',
    () => documentOf(id),
    ({ absent_search: search }) => isFurther(search?.to, 'u002'),
  )
  await kill(counting)
  const { absent_search: search } = await documentOf(id)
  const starts = await startsOf('query', async () => {
    const deactivating = await startEngine(3_000)
    await until(
      'a note of the deactivation',
      () => chunkOf(id),
      ({ deactivated_to: to }) => isFurther(to, 'u004'),
    )
    await kill(deactivating)
  })
  t.equal(starts[0], search!.to, 'the next engine searches behind the last note')

  const { deactivated_to: to } = await chunkOf(id)
  const engine = await startEngine(3_000)
  const later = await startsOf('query', () => importEnd(service, id, 90_000))
  t.equal(later[0], to, 'the next one deactivates behind the last note')
  t.same(countsOf(await importEnd(service, id)), { added: 1, deactivated: 1 })
  t.equal((await documentOf(id)).lease.tries, 0)
  await kill(engine)
})

t.test('the values of a deleted field are removed in pieces', async (t) => {
  const list = await listOf(10_000)
  const field = await service.post(`/mailing_lists/${list.id}/custom_fields`, {
    custom_field: { name: 'Text', field_type: 'text' },
  })
  const path = `custom_fields.${field.id}`
  const last = { _id: `${list.id}:u009999@example.com` }
  await collections.subscribers.updateOne(last, { $set: { [path]: 'x' } })
  await rest(t, 400)
  await service.call('DELETE', `/mailing_lists/${list.id}/custom_fields/${field.id}`)
  const entry = () => collections.deletedFields.findOne({ _id: field.id })
  const first = await startEngine(3_000)
  await until('a note', entry, (document) => document?.removed_to !== undefined)
  await kill(first)
  const { removed_to: to } = (await entry())!
  let engine!: RunningProcess
  const starts = await startsOf('update', async () => {
    engine = await startEngine(3_000)
    await until('its end', entry, (document) => document?.second_pass_at !== undefined, 60_000)
  })
  t.equal(starts[0], to, 'the next engine resumes after the last stored point')
  t.equal(await collections.subscribers.countDocuments({ [path]: { $exists: true } }), 0)
  await kill(engine)
})

t.test('sweeps and purges walk collections in pieces', async (t) => {
  const { uploads, blobPieces, failures, imports } = collections
  const many = Array.from({ length: 6_000 }, () => new ObjectId())
  const [stray] = many
  const blobOf = (id: ObjectId) => `uploads/00/${id.toHexString()}`
  const begun_at = new Date(Date.now() - 2 * 24 * 3_600_000)
  await blobPieces.insertMany(
    many.map((_id) => ({ _id, blob: blobOf(_id), n: 0, end: 1, data: Buffer.from('x'), begun_at })),
  )
  await uploads.insertMany(
    many.slice(1).map((id) => ({
      ...{ _id: id.toHexString(), organization_id: 1, name: id.toHexString(), state: 'finished' as const },
      ...{ blob: blobOf(id), size: 1, charged: 1, modified_at: new Date(), lease: null, pinned_by: [] },
    })),
  )
  const engine = await startEngine(3_000)
  const { id } = await importText(service, (await createList(service)).id, 'email\nann@example.com\n')
  await engine.stop()
  await imports.updateOne({ _id: id }, { $set: { finalized: true, finished_at: new Date(0) } })
  await failures.insertMany(many.map((_, i) => ({ _id: failureId(id, i), line: 'x', file_line: i + 1 })))

  const database = await openDatabase({ uri: set.uri, name: db.databaseName })
  t.teardown(() => database.close())
  await db.command({ profile: 2 })
  await openUploads({ STAGING: 'gridfs', DATA_DIR: '' }, database).purge({ olderThanMs: 3_600_000 })
  t.equal(await blobPieces.countDocuments({ blob: blobOf(stray!) }), 0)
  t.equal(await blobPieces.estimatedDocumentCount(), many.length - 1)
  await purgeLogs(database, createLogger({ process: 'test', level: 'silent' })).runOnce()
  await db.command({ profile: 0 })
  t.equal(await failures.estimatedDocumentCount(), 0)
  const profile = db.collection('system.profile')
  const costly = await profile
    .find({ $or: [{ keysExamined: { $gt: 3_000 } }, { docsExamined: { $gt: 3_000 } }] })
    .project({ ns: 1, op: 1, command: 1, keysExamined: 1, docsExamined: 1 })
    .toArray()
  t.same(costly, [], 'none of the commands examines them all')
  t.ok((await profile.countDocuments()) > 9, 'the commands are profiled')
  await profile.drop()
})

t.test('an import whose query takes too long each time fails after a bounded time', async (t) => {
  const id = await create((await listOf(10)).id, 'new@example.com\n')
  await failPoint(t, 'failCommand', 'alwaysOn', { ...planQuery, blockConnection: true, blockTimeMS: 1_500 })
  const startedAt = performance.now()
  const engine = await startEngine(1_000)
  const view = await importEnd(service, id, 120_000)
  t.equal(view.state, 'failed')
  t.match(
    view.error_message,
    /timed out \(the last of 5 tries\): the database took too long for a command each time/,
  )
  // The driver repeats each of the five attempts; between them are 2, 4, 8 and 16 s.
  t.ok(performance.now() - startedAt > 30_000, 'it was not tried again at once')
  await kill(engine)
})

t.test('dropped connections are no failures of the step, however many', async (t) => {
  const id = await create((await listOf(10)).id, 'new@example.com\n')
  await failPoint(t, 'failCommand', { times: 20 }, { ...planQuery, closeConnection: true })
  const engine = await startEngine(3_000)
  t.equal((await importEnd(service, id, 60_000)).state, 'finished')
  t.equal((await documentOf(id)).lease.tries, 0)
  const brokeOff = engine.log().match(/the step broke off and is tried again/g) ?? []
  t.ok(brokeOff.length > 5, 'more often than a step may fail')
  await kill(engine)
})

t.test('reads that the database refuses are no failures of the chunk, however many', async (t) => {
  const list = await listOf(10)
  const ofChunks = `${db.databaseName}.import_chunks`
  const data = { failCommands: ['find'], namespace: ofChunks, appName: 'rollcall', errorCode: 11_602 }
  await failPoint(t, 'failCommand', 'alwaysOn', data)
  const engine = await startEngine(3_000)
  const id = await create(list.id, 'new@example.com\n')
  const failures = () => engine.log().match(/a chunk failed: /g)?.length ?? 0
  await until(
    'more failures than a chunk may have claims, or the end of the import',
    async () => failures() > 5 || (await documentOf(id)).finished_at !== null,
    (isReached) => isReached,
    60_000,
  )
  await set.command({ configureFailPoint: 'failCommand', mode: 'off' })
  t.match(await importEnd(service, id, 60_000), { state: 'finished', error_message: null })
  await kill(engine)
})
