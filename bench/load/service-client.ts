import { ApiClient } from '../../control-plane/cli/api-client.ts'
import { openDatabase, type Database } from '../../shared/runtime/database.ts'
import { serverCpuSeconds } from '../mongodb-server.ts'
import { measuredProcess } from '../processes.ts'
import { startRollcall } from '../rollcall.ts'

/** A service that is measured: its processes with their default settings, its embedded database, and how to reach both. */
export interface MeasuredService {
  url: string
  authorization: string
  client: ApiClient
  database: Database
  /** URLs of the processes' metrics, by their names. */
  metrics: Record<string, string>
  /** Where files lie that imports read from the upload directory. */
  uploads: string
  /** A reply's text, of which a client of the API shows the data alone. */
  read: (path: string) => Promise<{ data: unknown[]; next_page_token: string | null }>
  /** CPU seconds that the control plane and the database have used so far. */
  cpuSeconds: () => Promise<{ controlPlane: number; mongodb: number }>
  stop: () => Promise<void>
}

/** Measures on a service of its own, which ends whatever comes of it. */
export async function onMeasuredService<T>(
  folder: string,
  measure: (service: MeasuredService) => Promise<T>,
): Promise<T> {
  const service = await startMeasuredService(folder)
  try {
    return await measure(service)
  } finally {
    await service.stop()
  }
}

async function startMeasuredService(folder: string): Promise<MeasuredService> {
  const key = 'bench_key_0123456789'
  const rollcall = await startRollcall({ folder, settings: { BOOTSTRAP_API_KEY: key } })
  const url = rollcall.ready.http
  const authorization = `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
  const client = new ApiClient(url, key)
  const controlPlane = measuredProcess('control-plane', rollcall.ready.metrics['control_plane']!)
  const database = await openDatabase({ uri: rollcall.mongodbUri, name: 'rollcall' })
  return {
    url,
    authorization,
    client,
    database,
    metrics: rollcall.ready.metrics,
    uploads: `${folder}/data/uploads/1`,
    read: async (path) => {
      const response = await fetch(`${url}/svc/api/v2${path}`, { headers: { authorization } })
      return (await response.json()) as { data: unknown[]; next_page_token: string | null }
    },
    cpuSeconds: async () => ({
      controlPlane: (await controlPlane.usage()).cpuSeconds,
      mongodb: await serverCpuSeconds(database.client),
    }),
    stop: async () => {
      await client.close()
      await database.close()
      await rollcall.stop()
    },
  }
}
