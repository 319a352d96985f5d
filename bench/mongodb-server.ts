import type { MongoClient } from 'mongodb'
import type { Usage } from './processes.ts'

export async function serverVersion(client: MongoClient): Promise<string> {
  const info = await client.db('admin').command({ buildInfo: 1 })
  return String(info['version'])
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
