import type { MongoClient } from 'mongodb'

/** What the server says of itself. */

export async function serverVersion(client: MongoClient): Promise<string> {
  return ((await client.db('admin').command({ buildInfo: 1 })) as { version: string }).version
}

export interface ServerUsage {
  /** Since its start. */
  cpuSeconds: number
  /** Resident, at this moment. */
  memoryMB: number
  /** Documents that it was told to insert or update since its start; upserts count here alone. */
  writes: number
}

/** What isn't asked for costs the server nothing; without `metrics` there is no `mem` either. */
const without = Object.fromEntries(
  ['wiredTiger', 'tcmalloc', 'locks', 'transactions', 'repl', 'logicalSessionRecordCache', 'network'].map(
    (section) => [section, 0],
  ),
)

export async function serverUsage(client: MongoClient): Promise<ServerUsage> {
  const { extra_info, mem, opcounters } = (await client
    .db('admin')
    .command({ serverStatus: 1, ...without })) as {
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

/** CPU seconds since its start. */
export async function serverCpuSeconds(client: MongoClient): Promise<number> {
  return (await serverUsage(client)).cpuSeconds
}
