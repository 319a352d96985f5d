import type { MongoClient } from 'mongodb'

/** What the server says of itself. */

export async function serverVersion(client: MongoClient): Promise<string> {
  return ((await client.db('admin').command({ buildInfo: 1 })) as { version: string }).version
}

/** CPU seconds since its start. */
export async function serverCpuSeconds(client: MongoClient): Promise<number> {
  const { extra_info: used } = (await client.db('admin').command({ serverStatus: 1 })) as {
    extra_info: { user_time_us: number; system_time_us: number }
  }
  return (used.user_time_us + used.system_time_us) / 1e6
}
