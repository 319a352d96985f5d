import { randomBytes } from 'node:crypto'
import { MongoClient } from 'mongodb'
import pino from 'pino'
import t from 'tap'
import { IdAllocators } from '../../shared/runtime/id-allocator.ts'
import { ensureSchema } from '../../shared/runtime/ensure-schema.ts'
import { openCollections } from '../../shared/contract/schemas/collections.ts'
import { collectionDefinitions } from '../../shared/contract/schemas/collection-definitions.ts'
import { schemaVersion } from '../../shared/contract/schemas/schema-version.ts'
import { createList, importEnd, importText, startService, testMongodbUri, until } from '../helpers/service.ts'

const log = pino({ level: 'silent' })
const client = await MongoClient.connect(testMongodbUri())
const db = client.db(`test_${randomBytes(6).toString('hex')}`)
t.teardown(async () => {
  await db.dropDatabase()
  await client.close()
})

const service = await startService(t, ['control-plane', 'engine'])

t.test(
  'collections, validators and indexes are made once, also when three processes make them at once',
  async (t) => {
    await Promise.all([ensureSchema(db, log), ensureSchema(db, log), ensureSchema(db, log)])
    const made = new Map(
      (await db.listCollections().toArray()).map((info) => [
        info.name,
        info as { options?: { validator?: unknown; capped?: boolean } },
      ]),
    )
    for (const { name, indexes } of collectionDefinitions) {
      t.ok(made.get(name)?.options?.validator, `${name} has a validator`)
      t.equal((await db.collection(name).indexes()).length, indexes.length + 1, `${name} has its indexes`)
    }
    t.equal(made.get('wake_ups')?.options?.capped, true)
  },
)

t.test('a second start changes nothing; a validator that differs is brought up to date', async (t) => {
  const commands: string[] = []
  const watched = await MongoClient.connect(testMongodbUri(), { monitorCommands: true })
  watched.on('commandStarted', ({ commandName }) => commands.push(commandName))
  await ensureSchema(watched.db(db.databaseName), log)
  t.notOk(commands.includes('create') || commands.includes('collMod'), commands.join(' '))
  await db.command({ collMod: 'organizations', validator: {} })
  await ensureSchema(watched.db(db.databaseName), log)
  t.equal(commands.filter((name) => name === 'collMod').length, 1)
  await watched.close()
})

t.test(
  'what a newer version has made is left alone, and refused where its major version is newer',
  async (t) => {
    const { schema } = openCollections(db)
    const { major, minor } = schemaVersion
    const validatorOf = async (name: string) =>
      (await db.listCollections({ name }).toArray())[0] as { options?: { validator?: unknown } }
    const [newerMinor, newerMajor] = [
      { major, minor: minor + 1 },
      { major: major + 1, minor: 0 },
    ]
    await Promise.all([ensureSchema(db, log, newerMinor), ensureSchema(db, log), ensureSchema(db, log)])
    t.match(await schema.findOne(), newerMinor, 'the highest is kept')
    await db.command({ collMod: 'organizations', validator: { name: { $type: 'string' } } })
    await ensureSchema(db, log)
    t.same((await validatorOf('organizations')).options?.validator, { name: { $type: 'string' } })
    await ensureSchema(db, log, newerMajor)
    t.match(
      (await validatorOf('organizations')).options?.validator,
      { $jsonSchema: Object },
      'the newer one mends',
    )
    for (const older of [newerMinor, schemaVersion])
      await t.rejects(ensureSchema(db, log, older), {
        name: 'StartError',
        message: new RegExp(
          `was changed by a newer Rollcall: its schema has version ${newerMajor.major}, and this version of Rollcall works with ${major}`,
        ),
      })
    t.match(await schema.findOne(), newerMajor)
    await schema.updateOne({}, { $set: schemaVersion })
  },
)

t.test('a validator refuses what a schema doesn’t know', async (t) => {
  const { organizations } = openCollections(db)
  const good = {
    _id: 1,
    name: 'x',
    time_zone_name: 'UTC',
    subscriber_limit: null,
    places_revision: 0,
    created_at: new Date(),
  }
  await organizations.insertOne(good)
  for (const bad of [
    { name: 5 },
    { subscriber_limit: 1.5 },
    { subscriber_limit: -1 },
    { created_at: '2020' },
    { _id: 0 },
  ]) {
    await t.rejects(
      organizations.insertOne({ ...good, _id: 2, ...bad } as never),
      { code: 121 },
      JSON.stringify(bad),
    )
  }
  await organizations.insertOne({ ...good, _id: 3, subscriber_limit: 5_000_000_000 })
})

t.test('concurrent requests never get the same id', async (t) => {
  const ids = new IdAllocators(openCollections(db))
  const firsts = await Promise.all(Array.from({ length: 50 }, (_, i) => ids.allocate('thing', (i % 3) + 1)))
  const all = firsts.flatMap((first, i) => Array.from({ length: (i % 3) + 1 }, (_, k) => first + k))
  t.equal(new Set(all).size, all.length)
  t.equal(Math.min(...all), 1)
  t.equal(Math.max(...all), all.length, 'without gaps')
})

t.test('three processes start at once on an empty database: one organization, one key', async (t) => {
  const service = await startService(t, [])
  const started = await Promise.all([
    service.start('control-plane', { BOOTSTRAP_API_KEY: '' }),
    service.start('control-plane', { BOOTSTRAP_API_KEY: '' }),
    service.start('control-plane', { BOOTSTRAP_API_KEY: '' }),
  ])
  t.teardown(() => Promise.all(started.map((running) => running.stop())))
  t.equal(started.filter((running) => running.ready.api_key !== null).length, 1, 'one of them says the key')
  t.equal(await service.collections.organizations.countDocuments(), 1)
  t.equal(await service.collections.apiKeys.countDocuments(), 1)
})

t.test('what an engine polls grows with its work, not with what has ended', async (t) => {
  const { db, collections } = service
  const list = await createList(service)
  await importText(service, list.id, 'a@example.com\n', { file_format: { csv_has_headers: false } })
  const ended = await collections.imports.findOne({ mailing_list_id: list.id })
  await until(
    'nothing left to do',
    () => collections.imports.findOne({ _id: ended!._id }),
    (document) => document!.finalized,
  )
  await collections.imports.insertMany(
    Array.from({ length: 500 }, (_, i) => ({ ...ended!, _id: 1_000 + i, finalized: true })),
  )
  await db.command({ profile: 2 })
  const queries = await until(
    'many queries',
    () =>
      db
        .collection('system.profile')
        .find({ ns: `${db.databaseName}.imports` })
        .toArray(),
    (found) => found.length > 8,
  )
  await db.command({ profile: 0 })
  // A scrape of the metrics would count imports by state; there is none here.
  t.same(
    queries
      .filter((query) => query['docsExamined'] > 0)
      .map((query) => [query['command'], query['planSummary']]),
    [],
  )
})

t.test('every document that an import writes passes its validator', async (t) => {
  const list = await service.post('/mailing_lists', {
    mailing_list: { name: 'L', has_format: true, has_confirmed: true },
  })
  await service.post(`/mailing_lists/${list.id}/custom_fields`, {
    custom_field: { name: 'Boxes', field_type: 'select_multiple_checkboxes', options: ['a', 'b'] },
  })
  const content =
    'email,status,subscribe_time,subscribe_ip,confirmed,Boxes\na@b.co,unsubscribed,2014-01-02,::1,yes,a|b\nbad\nc@d.co\nc@d.co\n'
  const created = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email', 'status', 'subscribe_time', 'subscribe_ip', 'confirmed', 'Boxes'],
      file_source: { type: 'json', content },
    },
  })
  t.equal((await importEnd(service, created.id)).state, 'finished')
  // The engine writes past the validators, for their price; what it writes must be what they ask for.
  for (const { name } of collectionDefinitions) {
    const [info] = (await service.db.listCollections({ name }).toArray()) as unknown as {
      options: { validator: { $jsonSchema: object } }
    }[]
    const { validator } = info!.options
    t.equal(await service.db.collection(name).countDocuments({ $nor: [validator] }), 0, name)
  }
  t.equal(await service.collections.subscribers.countDocuments({ mailing_list_id: list.id }), 2)
  t.equal(await service.collections.failures.countDocuments(), 1)
  t.ok((await service.collections.outcomes.countDocuments()) > 0)
})
