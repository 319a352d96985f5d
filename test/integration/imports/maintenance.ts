import { existsSync } from 'node:fs'
import { mkdir, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { purgeLogs } from '../../../engine/jobs/purge-logs.ts'
import { removeDeletedFieldValues } from '../../../engine/jobs/remove-deleted-field-values.ts'
import { sweepStaging } from '../../../engine/jobs/sweep-staging.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { openDatabase } from '../../../shared/runtime/database.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { folderStaging } from '../../helpers/folder-staging.ts'
import { removeImportEntry } from '../../../shared/store/staged-usage.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { lockRow } from '../../helpers/locked-row.ts'
import { createList, importEnd, importText, testMongodbUri, until, type Json } from '../../helpers/service.ts'
import { storedImport } from '../../helpers/stored-import.ts'
import { subscriberDocument } from '../../helpers/subscriber-document.ts'
import { service } from './service.ts'

const log = createLogger({ process: 'test', level: 'silent' })
const { collections, call } = service
const database = await openDatabase({ uri: testMongodbUri(), name: service.settings['MONGODB_DATABASE']! })
t.teardown(() => database.close())

/** The logs are the engine's until it has cleared up after the import. */
async function untilFinalized(view: Json): Promise<void> {
  await until(
    'clearing up',
    () => collections.imports.findOne({ _id: view.id }),
    (document) => document?.finalized === true,
  )
}

t.test('logs are removed seven days after the end, the counts stay', async (t) => {
  const list = await createList(service)
  const old = await importText(service, list.id, 'email\nann@example.com\nbad\n')
  const young = await importText(service, list.id, 'email\nbob@example.com\nbad\n')
  await Promise.all([old, young].map(untilFinalized))
  const weekAgo = new Date(Date.now() - 7 * 24 * 3_600_000)
  await collections.imports.updateOne({ _id: old.id }, { $set: { finished_at: weekAgo } })
  await purgeLogs(database, log).runOnce()

  t.equal((await call('GET', `/subscriber_imports/${old.id}/logs/failed`)).body.error_code, 'not_found')
  t.equal((await call('GET', `/subscriber_imports/${young.id}/logs/failed`)).status, 200)
  t.match(await service.get(`/subscriber_imports/${old.id}`), {
    stats: { subscribers: { added: 1, failed: 1 } },
  })
  const left = await Promise.all([collections.outcomes.distinct('_id'), collections.failures.distinct('_id')])
  const importsOf = left.flat().map((id) => Number(id.split(':')[0]))
  t.same(
    importsOf.filter((id) => id === old.id || id === young.id),
    [young.id, young.id],
  )
})

t.test('logs count as removed when all of them are', async (t) => {
  const list = await createList(service)
  const view = await importText(service, list.id, 'email\nann@example.com\nbad\n')
  await untilFinalized(view)
  const _id = { $gte: `${view.id}:`, $lt: `${view.id};` }
  const weekAgo = new Date(Date.now() - 7 * 24 * 3_600_000)
  await collections.imports.updateOne({ _id: view.id }, { $set: { finished_at: weekAgo } })
  const session = service.client.startSession()
  session.startTransaction()
  await collections.failures.updateOne(
    { _id },
    { $set: { held: true } },
    { session, bypassDocumentValidation: true },
  )
  const purged = purgeLogs(database, log).runOnce()
  await until(
    'the end of the other log',
    () => collections.outcomes.countDocuments({ _id }),
    (left) => left === 0,
  )
  t.match(await collections.imports.findOne({ _id: view.id }), { logs_purged_at: null })
  await session.abortTransaction()
  await session.endSession()
  await purged
  t.equal(await collections.failures.countDocuments({ _id }), 0)
  t.match(await collections.imports.findOne({ _id: view.id }), { logs_purged_at: Date })
})

t.test('staged files that no import needs are removed once they are old', async (t) => {
  const folder = path.join(service.dataFolder, 'staging')
  const make = async (id: number, ageMs: number) => {
    const file = path.join(folder, String(id), 'source')
    await mkdir(path.dirname(file), { recursive: true })
    await writeFile(file, 'email\n')
    const at = new Date(Date.now() - ageMs)
    await utimes(file, at, at)
  }
  const list = await createList(service)
  const waiting = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      begins_at: new Date(Date.now() + 3_600_000).toISOString(),
      file_source: { type: 'json', content: 'email\nann@example.com\n' },
    },
  })
  const [minute, hour] = [60_000, 3_600_000]
  await make(waiting.id, hour + minute)
  await make(900_001, hour + minute)
  const entry = (import_id: number) => ({ import_id, source: 6, partition: 0, entered_at: new Date() })
  const { ledgers } = collections
  await ledgers.updateOne({ _id: 1 }, { $push: { imports: { $each: [900_001, 900_002].map(entry) } } })
  await make(900_002, hour - minute)
  // The file server's clock is a day behind.
  const { now } = clock
  clock.now = () => new Date(Date.now() + 24 * 3_600_000)
  t.teardown(() => (clock.now = now))
  await sweepStaging(
    database,
    {
      staging: folderStaging(service.dataFolder),
      uploads: openUploads({ STAGING: 'disk', DATA_DIR: service.dataFolder }, database),
    },
    log,
  ).runOnce()
  t.ok(existsSync(path.join(folder, String(waiting.id), 'source')), 'an import waits for it')
  t.notOk(existsSync(path.join(folder, '900001')))
  t.ok(existsSync(path.join(folder, '900002')), 'its import may not be in the database yet')
  const counted = (await ledgers.findOne({ _id: 1 }))!.imports.map(({ import_id }) => import_id)
  t.same(
    counted.filter((id) => id > 900_000),
    [900_002],
    'what is removed counts to no quota',
  )
  await removeImportEntry(collections, 900_002)
})

t.test('values of a deleted custom field are removed, the others stay', async (t) => {
  const list = await createList(service, [
    { name: 'Gone', field_type: 'text' },
    { name: 'Kept', field_type: 'text' },
  ])
  const view = await importText(service, list.id, 'email,g,k\nann@example.com,x,y\nbob@example.com,,z\n', {
    column_mapping: ['email', 'Gone', 'Kept'],
  })
  t.equal(view.state, 'finished')
  const [gone, kept] = await service.get(`/mailing_lists/${list.id}/custom_fields`)
  t.equal((await call('DELETE', `/mailing_lists/${list.id}/custom_fields/${gone.id}`)).body.success, true)
  await removeDeletedFieldValues(database, log).runOnce()
  const subscribers = await collections.subscribers
    .find({ mailing_list_id: list.id })
    .sort({ _id: 1 })
    .toArray()
  t.same(
    subscribers.map((subscriber) => subscriber.custom_fields),
    [{ [kept.id]: 'y' }, { [kept.id]: 'z' }],
  )
  // A request that had read the field before it was deleted writes its value late.
  await collections.subscribers.updateOne(
    { _id: subscribers[0]!._id },
    { $set: { [`custom_fields.${gone.id}`]: 'late' } },
  )
  await removeDeletedFieldValues(database, log).runOnce()
  const walked = await collections.deletedFields.findOne({ _id: gone.id })
  const dueInMs = walked!.second_pass_at!.getTime() - Date.now()
  t.ok(dueInMs > 200_000 && dueInMs <= 300_000, 'the subscribers are walked again after five minutes')
  await collections.deletedFields.updateOne({ _id: gone.id }, { $set: { second_pass_at: new Date() } })
  await removeDeletedFieldValues(database, log).runOnce()
  t.equal(
    await collections.subscribers.countDocuments({ [`custom_fields.${gone.id}`]: { $exists: true } }),
    0,
  )
  t.equal(await collections.deletedFields.countDocuments(), 0)
})

t.test('a field that is deleted while an import writes its default leaves no value', async (t) => {
  const list = await createList(service, [{ name: 'Origin', field_type: 'text', default: 'import' }])
  const [field] = await service.get(`/mailing_lists/${list.id}/custom_fields`)
  const holders = () =>
    collections.subscribers.countDocuments({
      mailing_list_id: list.id,
      [`custom_fields.${field.id}`]: { $exists: true },
    })
  const letGo = await lockRow(database, `${list.id}:ann@example.com`)
  const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      // It has chunks, because it deactivates.
      deactivate_subscribers_not_in_import: true,
      file_source: { type: 'json', content: 'email\nann@example.com\nbob@example.com\n' },
    },
  })
  await until(
    'the claim of its chunk',
    () => collections.chunks.countDocuments({ import_id: id, state: 'running' }),
    (running) => running === 1,
  )
  t.equal((await call('DELETE', `/mailing_lists/${list.id}/custom_fields/${field.id}`)).status, 200)
  const setSecondPass = (at: Date) =>
    collections.deletedFields.updateOne({ _id: field.id }, { $set: { second_pass_at: at } })
  const walkAgain = async () => {
    await setSecondPass(new Date())
    await removeDeletedFieldValues(database, log).runOnce()
  }
  await removeDeletedFieldValues(database, log).runOnce()
  await walkAgain()
  // Else the engine could remove the values as soon as the import has ended.
  await setSecondPass(new Date('2100-01-01'))
  await letGo()
  t.match(await importEnd(service, id), { state: 'finished', stats: { subscribers: { added: 2 } } })
  t.equal(await holders(), 2, 'the import began with the field')
  await walkAgain()
  t.equal(await holders(), 0)
  t.equal(await collections.deletedFields.countDocuments({ _id: field.id }), 0)
})

t.test(
  'a field that is deleted while a small import runs loses its values after that import too',
  async (t) => {
    const { database } = await databaseAndFolder(t)
    await ensureSchema(database.db, log)
    const { imports, deletedFields } = database.collections
    // Its plan, which may have the field, is stored with its end.
    await imports.insertOne(storedImport({ _id: 1, plan: null }))
    await deletedFields.insertOne({ _id: 7, mailing_list_id: 1, second_pass_at: new Date(0) })
    await removeDeletedFieldValues(database, log).runOnce()
    t.equal(await deletedFields.countDocuments(), 1)
    await imports.updateOne({ _id: 1 }, { $set: { state: 'finished', finished_at: new Date() } })
    await removeDeletedFieldValues(database, log).runOnce()
    t.equal(await deletedFields.countDocuments(), 0)
  },
)

t.test('10,000 subscribers lose a deleted field, also when the walk breaks off on the way', async (t) => {
  const { database } = await databaseAndFolder(t)
  const { subscribers, deletedFields } = database.collections
  await ensureSchema(database.db, log)
  const fieldId = 7
  const path = `custom_fields.${fieldId}`
  const people = Array.from({ length: 10_000 }, (_, i) =>
    subscriberDocument(1, `s${i}@example.com`, i + 1, { [fieldId]: 'x' }),
  )
  await subscribers.insertMany([
    ...people,
    subscriberDocument(2, 'n@example.com', 20_000, { [fieldId]: 'x' }),
  ])
  await deletedFields.insertOne({ _id: fieldId, mailing_list_id: 1 })
  const holders = () => subscribers.countDocuments({ mailing_list_id: 1, [path]: { $exists: true } })

  const inOrder = people.map(({ _id }) => _id).sort()
  const letGo = await lockRow(database, inOrder[7_000]!)
  const broken = removeDeletedFieldValues(database, log).runOnce()
  await until('the end of the ranges before the row', holders, (count) => count === 3_000)
  const waits = { $match: { ns: subscribers.namespace, op: 'update' } }
  const admin = service.client.db('admin')
  const [write] = await until(
    'the write that waits for the row',
    () => admin.aggregate([{ $currentOp: {} }, waits], { readConcern: { level: 'local' } }).toArray(),
    ([write]) => write?.['secs_running'] > 0,
    60_000,
  )
  await admin.command({ killOp: 1, op: write!['opid'] })
  await t.rejects(broken, { code: 11601 })
  t.equal(await holders(), 3_000)
  await letGo()
  await subscribers.updateOne({ _id: inOrder[0]! }, { $set: { [path]: 'late' } })

  await removeDeletedFieldValues(database, log).runOnce()
  t.equal(await holders(), 1, 'the next one resumes where it stopped')
  await deletedFields.updateOne({ _id: fieldId }, { $set: { second_pass_at: new Date() } })
  await removeDeletedFieldValues(database, log).runOnce()
  t.equal(await holders(), 0)
  t.equal(await deletedFields.countDocuments(), 0)
  t.equal(await subscribers.countDocuments({ [path]: 'x' }), 1, 'another list has its own fields')
})
