import { setTimeout as sleep } from 'node:timers/promises'
import {
  MongoClient,
  MongoError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
  type ClientSession,
  type Db,
  type MongoClientOptions,
} from 'mongodb'
import { clock } from './clock.ts'
import { messageOf, RequestError, StartError } from '../contract/errors.ts'
import { IdAllocator } from './id-allocator.ts'
import type { Logger } from './logger.ts'
import { toBsonSchema } from '../contract/schemas/bson-schema.ts'
import {
  collectionDefinitions,
  collectionsOf,
  wakeUpCollectionName,
  type CollectionDefinition,
  type Collections,
} from '../contract/schemas/collections.ts'
import { schemaVersion, type SchemaVersion } from '../contract/schemas/schema-version.ts'
import { SessionPool } from './session-pool.ts'
import { shownMongodbUri, withoutUriSecrets } from './shown-uri.ts'

/**
 * The connection to MongoDB that a process works with. `collections` are typed; `sessions` are those of `inTransaction`.
 */
export interface Database {
  client: MongoClient
  sessions: SessionPool
  db: Db
  collections: Collections
  /** For the ready line and logs: without a password. */
  shownUri: string
  close: () => Promise<void>
}

export interface DatabaseOptions {
  uri: string
  name: string
  /** Connections kept at most; one thread of the engine needs one for each lane. */
  maxPoolSize?: number
}

const connectTimeoutMs = 8_000
const closeMs = 1_000
const minWireVersion = 17 // MongoDB 6.0

export const clientOptions: MongoClientOptions = {
  appName: 'rollcall',
  serverSelectionTimeoutMS: connectTimeoutMs,
  connectTimeoutMS: connectTimeoutMs,
  // A socket on which nothing comes back for so long is dead: no command of ours examines so much (key-ranges.ts).
  socketTimeoutMS: 60_000,
  promoteBuffers: true,
  // What an answer is made of must not be rolled back by a failover; transactions have a concern of their own.
  readConcern: { level: 'majority' },
  readPreference: 'primary',
  writeConcern: { w: 'majority' },
  retryWrites: true,
  retryReads: true,
}

/** Options of a URI that would change what the guards rest on, by the only value that is allowed, if any. */
const fixedOptions: Record<string, string | null> = {
  w: 'majority',
  wtimeoutms: null,
  journal: 'true',
  // The driver's older names of the same.
  wtimeout: null,
  j: 'true',
  fsync: null,
  readpreference: 'primary',
  readpreferencetags: null,
  maxstalenessseconds: null,
  readconcernlevel: 'majority',
  retrywrites: 'true',
  retryreads: 'true',
  readconcern: null,
  writeconcern: null,
  timeoutms: null,
  sockettimeoutms: null,
  // A request that waits for a connection would be given up with an error that no retry knows.
  waitqueuetimeoutms: null,
  // How documents are read and written.
  promotelongs: null,
  promotevalues: null,
  promotebuffers: null,
  usebigint64: null,
  raw: null,
  fieldsasraw: null,
  bsonregexp: null,
  ignoreundefined: null,
  serializefunctions: null,
  checkkeys: null,
  enableutf8validation: null,
  forceserverobjectid: null,
  pkfactory: null,
}

/** Throws a StartError that names each option of the URI that Rollcall sets itself. */
export function refuseUnsafeOptions(uri: string): void {
  const query = new URLSearchParams(uri.split('?')[1] ?? '')
  const problems: string[] = []
  for (const [name, value] of query) {
    const allowed = fixedOptions[name.toLowerCase()]
    if (allowed === undefined || value === allowed) continue
    problems.push(
      allowed === null
        ? `${name} must be left out`
        : `${name} must be ${allowed}, or left out (it is ${value})`,
    )
  }
  if (problems.length > 0)
    throw new StartError(
      `MONGODB_URI has options on which the safety of imports depends: ${problems.join('; ')}`,
    )
}

/** Connects. Throws a StartError when nobody answers or the server can't do transactions. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  refuseUnsafeOptions(options.uri)
  const shownUri = shownMongodbUri(options.uri)
  let client: MongoClient
  try {
    client = new MongoClient(options.uri, { ...clientOptions, maxPoolSize: options.maxPoolSize ?? 50 })
    await client.connect()
    await refuseUnfitServer(client, shownUri)
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(
      `MongoDB at ${shownUri} can't be reached (tried for ${connectTimeoutMs / 1000} s): ${withoutUriSecrets(messageOf(error), options.uri)}; check MONGODB_URI, the network and that the server runs, or leave MONGODB_URI out for an embedded server`,
      { cause: error },
    )
  }
  const db = client.db(options.name)
  return {
    client,
    sessions: new SessionPool(client),
    db,
    collections: collectionsOf(db),
    shownUri,
    close: () => closeInTime(client),
  }
}

/** The driver says goodbye to the server, and looks for one for as long as for anything else when it is away. */
async function closeInTime(client: MongoClient): Promise<void> {
  await Promise.race([client.close(), sleep(closeMs, undefined, { ref: false })])
}

async function refuseUnfitServer(client: MongoClient, shownUri: string): Promise<void> {
  const hello = await client.db('admin').command({ hello: 1 })
  const isCluster = hello['setName'] !== undefined || hello['msg'] === 'isdbgrid'
  let problem: string | null = null
  if (!isCluster) {
    problem =
      'is a standalone server, and Rollcall needs transactions: make it a replica set of one by starting mongod with --replSet rs0 and running rs.initiate() once in mongosh, then connect with ?replicaSet=rs0'
  } else if (Number(hello['maxWireVersion']) < minWireVersion) {
    problem = 'is older than version 6.0, the oldest that Rollcall works with: upgrade it'
  }
  if (problem === null) return
  await client.close()
  throw new StartError(`MongoDB at ${shownUri} ${problem}`)
}

/**
 * Makes every collection, validator and index there is in `collectionDefinitions`. Does nothing where they are as
 * they should be, or as a newer version has made them; several processes may do it at once. Throws a StartError when
 * the database has become one that this version can't work with.
 */
export async function ensureSchema(db: Db, log: Logger, version = schemaVersion): Promise<void> {
  if (!(await isOurs(db, version))) return
  const existing = new Map(
    (await db.listCollections().toArray()).map((info) => [
      info.name,
      info as { options?: { validator?: unknown } },
    ]),
  )
  for (const definition of collectionDefinitions) {
    await ensureCollection(db, definition, existing.get(definition.name)?.options?.validator, log)
    if (definition.indexes.length === 0) continue
    await db
      .collection(definition.name)
      .createIndexes(
        definition.indexes.map(({ keys, options }) => ({ key: keys as Record<string, 1 | -1>, ...options })),
      )
  }
  if (!existing.has(wakeUpCollectionName))
    await createUnlessThere(db, wakeUpCollectionName, { capped: true, size: 64 * 1024 })
}

/**
 * Notes the version in the database, before anything is made after it: whoever is older leaves it alone from then on.
 * Resolves to whether nobody newer has been here.
 */
async function isOurs(db: Db, { major, minor }: SchemaVersion): Promise<boolean> {
  const { schema } = collectionsOf(db)
  const isOlder = [{ major: { $lt: major } }, { major, minor: { $lt: minor } }]
  await schema
    .updateOne({ _id: 'schema', $or: isOlder }, { $set: { major, minor } }, { upsert: true })
    .catch((error: unknown) => {
      // It is there, and not older.
      if (!isDuplicateKey(error)) throw error
    })
  const stored = (await schema.findOne({ _id: 'schema' }))!
  if (stored.major > major)
    throw new StartError(
      `the database ${JSON.stringify(db.databaseName)} was changed by a newer Rollcall: its schema has version ${stored.major}, and this one works with ${major}; start the newer one, or restore a backup from before the upgrade (docs/upgrading.md)`,
    )
  return stored.minor === minor
}

async function ensureCollection(
  db: Db,
  definition: CollectionDefinition,
  present: unknown,
  log: Logger,
): Promise<void> {
  const validator = { $jsonSchema: toBsonSchema(definition.schema) }
  if (JSON.stringify(present) === JSON.stringify(validator)) return
  if (present === undefined && (await createUnlessThere(db, definition.name, { validator }))) return
  log.debug(`the validator of ${definition.name} is brought up to date`)
  await db.command({
    collMod: definition.name,
    validator,
    validationLevel: 'strict',
    validationAction: 'error',
  })
}

async function createUnlessThere(db: Db, name: string, options: object): Promise<boolean> {
  try {
    await db.createCollection(name, options)
    return true
  } catch (error) {
    if (error instanceof MongoServerError && error.codeName === 'NamespaceExists') return false
    throw error
  }
}

/** Hands out `amount` ids in a row and returns the first. Gaps are fine, so it stands outside of transactions. */
export function nextIds(collections: Collections, kind: string, amount = 1): Promise<number> {
  let counters = idCounters.get(collections)
  if (counters === undefined) idCounters.set(collections, (counters = new Map<string, IdAllocator>()))
  let counter = counters.get(kind)
  if (counter === undefined) counters.set(kind, (counter = new IdAllocator(collections, kind)))
  return counter.take(amount)
}

const idCounters = new WeakMap<Collections, Map<string, IdAllocator>>()

/** The id that `nextIds` would hand out next. */
export async function peekNextId(collections: Collections, kind: string): Promise<number> {
  return (await collections.counters.findOne({ _id: kind }))?.next ?? 1
}

/** The time by the database's clock, which every engine's leases go by. */
export async function databaseTime(db: Db): Promise<Date> {
  return (await db.command({ hello: 1 }))['localTime'] as Date
}

/**
 * Runs `work` in a transaction that sees one snapshot and commits to a majority; repeated by the driver when it
 * met another one, until the `deadline` (by clock.monotonicMs). For requests and uploads; throws RequestError
 * `internal_error` (503) at the deadline. The engine's batches have a loop of their own (engine/writing).
 */
export function inTransaction<T>(
  { sessions }: Pick<Database, 'sessions'>,
  work: (session: ClientSession) => Promise<T>,
  deadline = clock.monotonicMs() + timeoutMs,
): Promise<T> {
  return sessions.run((session) =>
    inTransactionOf(session, async (own) => {
      if (clock.monotonicMs() > deadline) throw busy()
      return work(own)
    }),
  )
}

/** The driver alone would try for two minutes, longer than who asked waits. */
const timeoutMs = 20_000

const busy = (): RequestError =>
  new RequestError(
    'internal_error',
    'the same records are being written by many at once, and nothing of this was written: try again in a moment',
    { status: 503, headers: { 'Retry-After': '1' } },
  )

/** The same in a session that is there already. */
export function inTransactionOf<T>(
  session: ClientSession,
  work: (session: ClientSession) => Promise<T>,
): Promise<T> {
  return session.withTransaction(() => work(session), {
    readConcern: { level: 'snapshot' },
    writeConcern: { w: 'majority' },
  })
}

/** The last one is of newer servers that have too much to do and did nothing of what was asked. */
const transientLabels = ['TransientTransactionError', 'RetryableWriteError', 'RetryableError']

/** Why an operation that the driver gave up may go well later; null when it would not. */
export function retryReasonOfDriver(error: unknown): 'network' | 'transient' | null {
  if (error instanceof MongoNetworkError || error instanceof MongoServerSelectionError) return 'network'
  if (error instanceof MongoError && transientLabels.some((label) => error.hasErrorLabel(label)))
    return 'transient'
  return null
}

/**
 * The server took longer for a command than it is given: by the socket, or by the command's `maxTimeMS`. The same command
 * would take as long again. A connection that could not be opened in time is another matter: no command was sent.
 */
export function isCommandTimeout(error: unknown): boolean {
  if (!(error instanceof MongoNetworkTimeoutError)) return isMaxTimeExpired(error)
  return !openingLabels.some((label) => error.hasErrorLabel(label))
}

/** What the driver marks errors with that arose while a connection was opened. */
const openingLabels = ['HandshakeError', 'SystemOverloadedError']

export const isMaxTimeExpired = (error: unknown): boolean =>
  error instanceof MongoServerError && error.code === 50

/** A unique index, that of `_id` or another one, has the written value already. */
export function isDuplicateKey(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === 11000
}

/** Another transaction wrote the same documents. */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === 112
}
