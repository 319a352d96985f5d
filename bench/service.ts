import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { Client as FtpClient } from 'basic-ftp'
import { ApiClient } from '../control-plane/cli/api-client.ts'
import { programEnvironment } from '../shared/runtime/config.ts'
import { openDatabase, type Database } from '../shared/runtime/database.ts'
import { endOnInterrupt } from './interrupt.ts'
import { measuredProcess, type MeasuredProcess } from './processes.ts'

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
  measured: (name: ProcessName, onMetrics?: (metrics: string) => void) => MeasuredProcess
  /** The engine and the control plane. */
  processes: MeasuredProcess[]
  /** Writes a file into the first organization's upload directory. */
  place: (content: Iterable<Buffer> | AsyncIterable<Buffer>, name: string) => Promise<void>
  ready: ReadyLine
  logFile: string
}

interface ServiceOptions {
  folder: string
  /** The root of another checkout with its own node_modules, whose processes are to run. */
  tree?: string | null
  /** Without a database, the embedded one, whose data are in the folder. */
  mongodb?: { uri: string; database: string }
  settings?: Record<string, string>
  /** Must be the same when the service starts again with what it stored. */
  key?: string
  /** Called with messages about the database's download, which takes long at a first start. */
  onNews?: (text: string) => void
}

/** Starts the service on free ports, works with it, and stops it. What it stored stays. */
export async function withService<T>(
  { folder, tree, mongodb, settings = {}, key = 'bench_key_0123456789', onNews }: ServiceOptions,
  work: (service: Service) => Promise<T>,
): Promise<T> {
  await mkdir(folder, { recursive: true })
  const logFile = path.join(folder, 'rollcall.log')
  const { uri: MONGODB_URI = '', database: databaseName = 'rollcall' } = mongodb ?? {}
  const defaults = { STAGING: 'disk', DATA_DIR: path.join(folder, 'data'), BOOTSTRAP_API_KEY: key }
  const { ready, stop } = await startRollcall(
    tree ?? path.join(import.meta.dirname, '..'),
    { ...defaults, MONGODB_URI, MONGODB_DATABASE: databaseName, ...settings },
    logFile,
    onNews,
  )
  const { http: url, ftp, metrics } = ready
  const client = new ApiClient(url, key)
  let database: Database | null = null
  try {
    const mongodbUri = mongodb?.uri ?? (await readEmbeddedUri(ready))
    // To sum up fifty million documents takes minutes.
    database = await openDatabase({ uri: mongodbUri, name: databaseName, socketTimeoutMS: 0 })
    const pids = await readProcessIds(database)
    const measured: Service['measured'] = (name, onMetrics) =>
      measuredProcess(name, metrics[metricsNames[name]], pids[name], onMetrics)
    return await work({
      url,
      ftp: new URL(ftp),
      key,
      authorization: `Basic ${Buffer.from(`api:${key}`).toString('base64')}`,
      client,
      mongodbUri,
      database,
      metrics,
      measured,
      processes: [measured('engine'), measured('control plane')],
      place: async (content, name) => {
        await client.putBytes(`/uploads/${name}`, Readable.from(content), {})
      },
      ready,
      logFile,
    })
  } finally {
    await database?.close()
    await client.destroy()
    await stop()
  }
}

const metricsNames = { engine: 'engine', 'control plane': 'control_plane', 'FTP server': 'ftp' } as const
type ProcessName = keyof typeof metricsNames

/** As the processes have registered. */
async function readProcessIds({ collections: { engines, processes } }: Database) {
  const find = async (kind: 'control-plane' | 'ftp') =>
    (await processes.findOne({ kind, dead: false }))?.process_id
  const engine = (await engines.findOne({ dead: false }))?.process_id
  return { engine, 'control plane': await find('control-plane'), 'FTP server': await find('ftp') }
}

/** Uploads a stream, or the file with this path, into the first organization's upload directory. */
export async function uploadByFtp(
  { ftp, key }: Pick<Service, 'ftp' | 'key'>,
  source: Readable | string,
  name: string,
): Promise<void> {
  const client = new FtpClient(60_000)
  try {
    await client.access({ host: ftp.hostname, port: Number(ftp.port), user: 'api', password: key })
    await client.uploadFrom(source, name)
  } finally {
    client.close()
  }
}

/** What the service prints when it is up. */
interface ReadyLine {
  http: string
  ftp: string
  metrics: Record<string, string>
  /** With the password masked. */
  mongodb: string
  /** Null with `MONGODB_URI`. */
  mongodb_password_file: string | null
}

/** The whole service as a child process. */
async function startRollcall(
  tree: string,
  settings: Record<string, string>,
  logFile: string,
  onNews?: (text: string) => void,
) {
  const log = createWriteStream(logFile)
  const ports = { HTTP_PORT: '0', FTP_PORT: '0', FTP_PASSIVE_PORTS: '0' }
  const metricsPorts = { ENGINE_METRICS_PORT: '0', FTP_METRICS_PORT: '0' }
  const child = spawn(process.execPath, [path.join(tree, 'control-plane/cli/start.ts')], {
    env: programEnvironment({ settings: { ...ports, ...metricsPorts, ...settings } }),
    // Detached, so that it gets a Ctrl-C once, from here. When this process is killed, the IPC channel closes.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    detached: true,
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await ended
  }
  void ended.then(endOnInterrupt(stop))
  let reason = ''
  createInterface({ input: child.stderr! }).on('line', (line) => {
    log.write(`${line}\n`)
    const { level, msg = '' } = parseLine(line)
    if (msg.startsWith('embedded MongoDB')) onNews?.(msg)
    if (level === 'fatal') reason ||= msg
  })
  const ready = await new Promise<ReadyLine>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (line) => resolve(JSON.parse(line) as ReadyLine))
    void ended.then(() => reject(new Error(`Rollcall didn't start: ${reason || `see ${logFile}`}`)))
  })
  return { ready, stop }
}

function parseLine(line: string): { level?: string; msg?: string } {
  try {
    return JSON.parse(line) as { level?: string; msg?: string }
  } catch {
    return {}
  }
}

const readEmbeddedUri = async ({ mongodb, mongodb_password_file }: ReadyLine): Promise<string> =>
  mongodb.replace(':***@', `:${await readFile(mongodb_password_file ?? '', 'utf8')}@`)
