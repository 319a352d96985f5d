import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { MongoClient, type Collection, type Document, type MongoClientOptions } from 'mongodb'
import t, { type Test } from 'tap'
import { clientOptions } from '../../../shared/runtime/database.ts'
import { driverRetryReason, isCommandTimeout } from '../../../shared/runtime/driver-errors.ts'
import { testMongodbUri, until } from '../../helpers/service.ts'

/** Connections to the database that break, or are closed, while a command is written to them. */

interface Link {
  client: MongoClient
  collection: Collection
  /** Blocks this thread until the proxy has done it, so that the driver gets no news of its sockets before. */
  breakAll: (how: 'reset' | 'stall') => void
}

/** So that a lost server is noticed soon. A busy one may be taken for lost. */
const shortTimeouts = { serverSelectionTimeoutMS: 1_000, connectTimeoutMS: 1_000 }

async function openLink(t: Test, options: MongoClientOptions = {}): Promise<Link> {
  const uri = new URL(testMongodbUri())
  const done = new Int32Array(new SharedArrayBuffer(4))
  const proxy = new Worker(new URL('../../helpers/breaking-proxy.ts', import.meta.url), {
    workerData: { port: Number(uri.port), done },
  })
  const [port] = (await once(proxy, 'message')) as [number]
  uri.host = `127.0.0.1:${port}`
  uri.search = '?directConnection=true'
  const client = new MongoClient(uri.href, {
    ...clientOptions,
    socketTimeoutMS: 2_000,
    heartbeatFrequencyMS: 1_000,
    minHeartbeatFrequencyMS: 100,
    ...options,
  })
  const db = client.db(`test_${randomBytes(6).toString('hex')}`)
  t.teardown(async () => {
    await proxy.terminate()
    await client.close()
    const direct = await MongoClient.connect(testMongodbUri())
    await direct.db(db.databaseName).dropDatabase()
    await direct.close()
  })
  const collection = db.collection('some')
  const insertion = () =>
    collection.updateOne({}, { $set: { first: true } }, { upsert: true }).then(
      () => true,
      () => false,
    )
  await until('the first document', insertion, Boolean)
  const breakAll = (how: 'reset' | 'stall') => {
    const doneBefore = Atomics.load(done, 0)
    proxy.postMessage(how)
    t.not(Atomics.wait(done, 0, doneBefore, 5_000), 'timed-out', `the proxy does: ${how}`)
  }
  return { client, collection, breakAll }
}

const largeDocuments = (): Document[] => Array.from({ length: 3 }, () => ({ text: 'x'.repeat(14_000_000) }))

t.test('a command whose connection was reset before is repeated', async (t) => {
  const { client, collection, breakAll } = await openLink(t, { socketTimeoutMS: 60_000 })
  const commands: Record<string, () => Promise<unknown>> = {
    'a read': () => collection.findOne({}),
    'a write': () => collection.insertOne({ written: true }),
    'a large write': () => collection.insertOne({ text: 'x'.repeat(1_000_000) }),
    'a bulk write': () => collection.bulkWrite([{ insertOne: { document: { inBulk: true } } }]),
    'a transaction': () =>
      client.withSession((session) =>
        session.withTransaction(() => collection.insertOne({ inTransaction: true }, { session })),
      ),
  }
  for (const [name, send] of Object.entries(commands)) {
    breakAll('reset')
    await t.resolves(send(), name)
  }
  t.equal(await collection.countDocuments(), 5, 'each is written once')
})

t.test('a write that waits for room in the socket ends when its connection does', async (t) => {
  const { collection, breakAll } = await openLink(t, shortTimeouts)
  breakAll('stall')
  const error: unknown = await collection.insertMany(largeDocuments()).catch((error: unknown) => error)
  t.equal(driverRetryReason(error), 'network', 'and may be repeated later')
})

t.test('writes that are compressed while their connection is reset end', async (t) => {
  const { collection, breakAll } = await openLink(t, { compressors: ['zlib'] })
  for (const delayMs of [1, 5, 20, 60]) {
    const writing = largeDocuments().map((document) =>
      collection.insertOne(document).then(() => null, driverRetryReason),
    )
    await sleep(delayMs)
    breakAll('reset')
    const reasons = await Promise.all(writing)
    t.strictSame(
      reasons.filter((reason) => reason !== null && reason !== 'network'),
      [],
      `each is written, or may be repeated (${delayMs} ms)`,
    )
  }
})

t.test(
  'a bulk write that exceeds the timeout of the socket counts as a command that takes too long',
  async (t) => {
    const { collection } = await openLink(t)
    // A busy server may need more than that timeout for what comes before the writes.
    const direct = await MongoClient.connect(testMongodbUri())
    t.teardown(() => direct.close())
    const holding = direct.db(collection.dbName).collection(collection.collectionName)
    await holding.createIndexes([{ key: { key: 1 }, unique: true }])
    await direct.withSession(async (session) => {
      session.startTransaction()
      await holding.insertOne({ key: 'held' }, { session })
      const waiting = [
        () => collection.insertOne({ key: 'held' }),
        () => collection.insertMany([{ key: 'held' }]),
        () => collection.bulkWrite([{ insertOne: { document: { key: 'held' } } }]),
      ].map((send) => send().catch(isCommandTimeout))
      const areTimeouts = await Promise.all(waiting)
      await session.abortTransaction()
      t.strictSame(areTimeouts, [true, true, true])
    })
  },
)

t.test('bulk writes that find no server, or lose it, may be repeated later', async (t) => {
  const { collection, breakAll } = await openLink(t, shortTimeouts)
  breakAll('stall')
  const failures = await Promise.all(
    [
      () => collection.insertMany([{ a: 1 }, { a: 2 }]),
      () => collection.bulkWrite([{ insertOne: { document: { a: 3 } } }]),
      () => collection.insertOne({ a: 4 }),
    ].map((send) => send().catch((error: unknown) => error)),
  )
  t.strictSame(failures.map(driverRetryReason), ['network', 'network', 'network'])
  // The connections are known as lost now.
  const later: unknown = await collection.insertMany([{ a: 5 }, { a: 6 }]).catch((error: unknown) => error)
  t.equal(driverRetryReason(later), 'network')
})
