import type { Db, MongoClient } from 'mongodb'
import { openDatabase } from '../shared/runtime/database.ts'
import { createLogger } from '../shared/runtime/logger.ts'
import { startEmbeddedMongoDB } from '../shared/runtime/mongod/embedded-mongodb.ts'
import { endOnInterrupt, interrupted, unlessInterrupted } from './interrupt.ts'
import type { Usage } from './processes.ts'
import type { Bench } from './scenario.ts'

export async function serverVersion(client: MongoClient): Promise<string> {
  const info = await client.db('admin').command({ buildInfo: 1 })
  return String(info['version'])
}

type ServerOptions = Pick<Bench, 'rows' | 'seed' | 'folder' | 'say'> & { cacheMB: number }

/** Does work on a MongoDB server of its own, whose data are in the scratch folder. */
export async function onServer<T>(
  { rows, seed, folder, say, cacheMB }: ServerOptions,
  work: (bench: Bench) => Promise<T>,
): Promise<T> {
  const log = createLogger({ process: 'bench', level: 'warn' })
  const starting = startEmbeddedMongoDB({
    dataFolder: folder,
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
      return await work({ rows, seed, folder, say, mongodbUri: uri, server: admin.client })
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

export interface ServerUsage extends Usage {
  /** Documents inserted or updated since the server's start. Upserts count here only. */
  writes: number
}

/** Sections that the server needn't compute. `mem` comes only with `metrics`. */
const without = Object.fromEntries(
  ['wiredTiger', 'tcmalloc', 'locks', 'transactions', 'repl', 'logicalSessionRecordCache', 'network'].map(
    (section) => [section, 0],
  ),
)

export async function serverUsage(client: MongoClient): Promise<ServerUsage> {
  const status = await client.db('admin').command({ serverStatus: 1, ...without })
  const { extra_info, mem, opcounters } = status as {
    extra_info: { user_time_us: number; system_time_us: number }
    /** In MiB. */
    mem: { resident: number }
    opcounters: { insert: number; update: number }
  }
  return {
    cpuSeconds: (extra_info.user_time_us + extra_info.system_time_us) / 1e6,
    memoryMB: (mem.resident * 1024 * 1024) / 1e6,
    writes: opcounters.insert + opcounters.update,
  }
}
