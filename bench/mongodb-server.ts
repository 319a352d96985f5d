import type { Db, MongoClient } from 'mongodb'
import { openDatabase } from '../shared/runtime/database.ts'
import { createLogger } from '../shared/runtime/logger.ts'
import { startEmbeddedMongoDB } from '../shared/runtime/mongod/embedded-mongodb.ts'
import { endOnInterrupt, interrupted, unlessInterrupted } from './interrupt.ts'
import type { Bench } from './scenario.ts'

export async function serverVersion(client: MongoClient): Promise<string> {
  const info = await client.db('admin').command({ buildInfo: 1 })
  return String(info['version'])
}

/** Writes what earlier work has left in the cache, so that its checkpoint isn't part of the next work. */
export async function awaitCheckpoint(client: MongoClient): Promise<void> {
  await client.db('admin').command({ fsync: 1 })
}

type ServerOptions = Omit<Bench, 'mongodbUri' | 'server' | 'settle'> & { cacheMB: number }

/** Does work on a MongoDB server of its own, whose data are in the scratch folder. */
export async function onServer<T>(
  { cacheMB, ...options }: ServerOptions,
  work: (bench: Bench) => Promise<T>,
): Promise<T> {
  const log = createLogger({ process: 'bench', level: 'warn' })
  const starting = startEmbeddedMongoDB({
    dataFolder: options.folder,
    cacheMB,
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log,
    signal: interrupted,
  })
  const end = async () => (await starting.catch(() => null))?.stop()
  const unregister = endOnInterrupt(end)
  try {
    const { uri } = await starting
    await unlessInterrupted()
    const admin = await openDatabase({ uri, name: 'admin' })
    try {
      return await work({ ...options, mongodbUri: uri, server: admin.client })
    } finally {
      await admin.close()
    }
  } finally {
    await end()
    unregister()
  }
}

let databases = 0

/** Works on a new database, which is dropped afterwards. */
export async function inNewDatabase<T>({ server }: Bench, work: (db: Db) => Promise<T>): Promise<T> {
  databases += 1
  const db = server.db(`bench_${databases}`)
  try {
    return await work(db)
  } finally {
    await db.dropDatabase()
  }
}

/** Sections of its status that the server needn't compute. */
const without = Object.fromEntries(
  ['metrics', 'wiredTiger', 'tcmalloc', 'locks', 'transactions', 'repl', 'network'].map((section) => [
    section,
    0,
  ]),
)

/** CPU time since the server's start, and documents inserted or updated since then. Upserts count here only. */
export async function serverUsage(client: MongoClient) {
  const status = await client.db('admin').command({ serverStatus: 1, ...without })
  const { pid, extra_info, opcounters } = status as {
    /** A Long. */
    pid: unknown
    extra_info: { user_time_us: number; system_time_us: number }
    opcounters: { insert: number; update: number }
  }
  return {
    pid: Number(pid),
    cpuSeconds: (extra_info.user_time_us + extra_info.system_time_us) / 1e6,
    writes: opcounters.insert + opcounters.update,
  }
}
