import { MongoClient, type Db, type MongoClientOptions } from 'mongodb'
import './driver-patch.ts'
import { errorMessage, StartError } from '../contract/errors.ts'
import { IdAllocators } from './id-allocator.ts'
import { LocalState } from './local-state.ts'
import { openCollections, type Collections } from '../contract/schemas/collections.ts'
import { shownMongodbUri, withoutUriSecrets } from './shown-uri.ts'
import { SessionPool } from './transactions.ts'
import { within } from './within.ts'

/**
 * A process's connection to MongoDB. `collections` have the types of their documents; `inTransaction` uses `sessions`.
 */
export interface Database {
  client: MongoClient
  sessions: SessionPool
  db: Db
  collections: Collections
  ids: IdAllocators
  local: LocalState
  /** Without a password, for the ready line and logs. */
  shownUri: string
  close: () => Promise<void>
}

interface DatabaseOptions {
  uri: string
  name: string
  /** Default 50. A worker thread of an engine needs a connection for each lane. */
  maxPoolSize?: number
  /** How often the driver asks each member of the database how it is, at rest; by default every 20 s. */
  heartbeatFrequencyMS?: number
  /** Milliseconds after which a command that isn't answered has failed; by default a minute, 0 for none. */
  socketTimeoutMS?: number
}

const connectTimeoutMs = 8_000
const closeMs = 1_000
const minWireVersion = 17 // MongoDB 6.0

export const clientOptions: MongoClientOptions = {
  appName: 'rollcall',
  serverSelectionTimeoutMS: connectTimeoutMs,
  connectTimeoutMS: connectTimeoutMs,
  // A member answers a `hello` when the primary changes, else after this time. By polls the driver would miss a new primary
  // for as long. Its own 10 s would send twice as many commands at rest, with its measurements of the round trip.
  heartbeatFrequencyMS: 20_000,
  // A socket without a reply for this time is dead, because no command of ours takes that long (key-ranges.ts).
  socketTimeoutMS: 60_000,
  promoteBuffers: true,
  // Replies must not show data that a failover may roll back. Transactions set their own concern.
  readConcern: { level: 'majority' },
  readPreference: 'primary',
  writeConcern: { w: 'majority' },
  retryWrites: true,
  retryReads: true,
}

/** Options of a URI on which guarantees depend, with the only allowed value; null allows none. */
const fixedOptions: Record<string, string | null> = {
  w: 'majority',
  wtimeoutms: null,
  journal: 'true',
  // Older names of the same options.
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
  // A request that waits too long for a connection would fail with an error that is not retried.
  waitqueuetimeoutms: null,
  // These change how documents are read and written.
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

/** Throws a StartError that lists the options of the URI which Rollcall must set itself. */
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
      `MONGODB_URI has options that would break guarantees of imports: ${problems.join('; ')}`,
    )
}

/** Connects. Throws a StartError when no server answers or the server doesn't support transactions. */
export async function openDatabase({
  uri,
  name,
  maxPoolSize = 50,
  ...others
}: DatabaseOptions): Promise<Database> {
  refuseUnsafeOptions(uri)
  const shownUri = shownMongodbUri(uri)
  const local = new LocalState()
  let client: MongoClient
  try {
    client = new MongoClient(uri, { ...clientOptions, maxPoolSize, ...others })
    // The pool looks every 100 ms whether it has `minPoolSize` connections, by a setting that the driver lets no caller
    // pass. Ten wake-ups a second take 0.3 % of a core from an idle process.
    Object.assign(client.options, { minPoolSizeCheckFrequencyMS: 10_000 })
    client.on('serverHeartbeatSucceeded', ({ reply }) => void local.leaseWatch.recordHello(reply))
    await client.connect()
    await refuseUnfitServer(client, shownUri)
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(
      `MongoDB at ${shownUri} can't be reached (tried for ${connectTimeoutMs / 1000} s): ${withoutUriSecrets(errorMessage(error), uri)}; check MONGODB_URI, the network and that the server runs, or leave MONGODB_URI out and run \`npm start\` for an embedded server`,
      { cause: error },
    )
  }
  const db = client.db(name)
  const collections = openCollections(db)
  return {
    client,
    sessions: new SessionPool(client),
    db,
    collections,
    ids: new IdAllocators(collections),
    local,
    shownUri,
    // Closing sends a command, and the driver waits the full selection timeout for a server that is down.
    close: () => within(closeMs, client.close(), undefined),
  }
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

/** The id that `ids.allocate` would return next. */
export async function peekNextId(collections: Collections, kind: string): Promise<number> {
  return (await collections.counters.findOne({ _id: kind }))?.next ?? 1
}

/** The time of the database's clock, which all leases use. */
export async function databaseTime(db: Db): Promise<Date> {
  return (await db.command({ hello: 1 }))['localTime'] as Date
}
