import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { ApiClient } from '../control-plane/cli/api-client.ts'
import { openDatabase, type Database } from '../shared/runtime/database.ts'
import { openUploads } from '../shared/storage/uploads/open-uploads.ts'
import { newUploadToken } from '../shared/storage/uploads/upload-names.ts'
import { measuredProcess, type MeasuredProcess } from './processes.ts'
import { startRollcall } from './rollcall.ts'

/** A running service that is measured: all of its processes, and how to reach them and their database. */
export interface Service {
  url: string
  ftp: URL
  key: string
  authorization: string
  client: ApiClient
  mongodbUri: string
  database: Database
  /** URLs of the processes' metrics, by name. */
  metrics: Record<string, string>
  /** The engine and the control plane. */
  processes: MeasuredProcess[]
  /** Writes a file into the first organization's upload directory, as the FTP server does. */
  place: (content: Iterable<Buffer> | AsyncIterable<Buffer>, name: string) => Promise<void>
}

interface ServiceOptions {
  folder: string
  /** The root of another checkout, as in `RollcallOptions`. */
  tree?: string
  /** Without a database, the embedded one, whose data are in the folder. */
  mongodb?: { uri: string; database: string }
  settings?: Record<string, string>
}

const key = 'bench_key_0123456789'

/** Starts the service, works with it, and stops it. What it stored stays. */
export async function withService<T>(
  { folder, tree, mongodb, settings = {} }: ServiceOptions,
  work: (service: Service) => Promise<T>,
): Promise<T> {
  await mkdir(folder, { recursive: true })
  const external = mongodb && { MONGODB_URI: mongodb.uri, MONGODB_DATABASE: mongodb.database }
  const rollcall = await startRollcall({
    folder,
    ...(tree === undefined ? {} : { tree }),
    settings: { BOOTSTRAP_API_KEY: key, ...external, ...settings },
  })
  const { http: url, ftp, metrics } = rollcall.ready
  const client = new ApiClient(url, key)
  const database = await openDatabase({ uri: rollcall.mongodbUri, name: mongodb?.database ?? 'rollcall' })
  const STAGING = settings['STAGING'] === 'gridfs' ? 'gridfs' : 'disk'
  const location = { STAGING, DATA_DIR: path.join(folder, 'data') } as const
  try {
    return await work({
      url,
      ftp: new URL(ftp),
      key,
      authorization: `Basic ${Buffer.from(`api:${key}`).toString('base64')}`,
      client,
      mongodbUri: rollcall.mongodbUri,
      database,
      metrics,
      processes: [
        measuredProcess('engine', metrics['engine']),
        measuredProcess('control plane', metrics['control_plane']),
      ],
      place: async (content, name) => {
        const directory = openUploads(location, database).directory(1)
        await directory.prepare()
        const upload = await directory.beginOrResume({
          name,
          token: newUploadToken(),
          wasAbandoned: false,
          keep: 0,
        })
        for await (const piece of content) await upload.write(piece)
        await upload.prepare()
        await upload.publish()
        await upload.close()
      },
    })
  } finally {
    await client.close()
    await database.close()
    await rollcall.stop()
  }
}
