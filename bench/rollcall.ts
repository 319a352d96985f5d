import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { programEnvironment } from '../shared/runtime/config.ts'
import { endOnInterrupt } from './interrupt.ts'

/** The whole service as a child process, on free ports. */
export interface Rollcall {
  ready: ReadyLine
  /** The URI with the password, which `ready` masks. */
  mongodbUri: string
  key: string
  logFile: string
  stop(): Promise<void>
}

interface ReadyLine {
  http: string
  ftp: string
  metrics: Record<string, string>
  mongodb: string
  /** Null with `MONGODB_URI`. */
  mongodb_password_file: string | null
  /** Null with `BOOTSTRAP_API_KEY`. */
  api_key: string | null
}

interface RollcallOptions {
  folder: string
  /** The root of another checkout with its own node_modules, whose processes are to run. */
  tree?: string
  settings?: Record<string, string>
  /** Called with messages about the database's download, which takes long at a first start. */
  onNews?: (text: string) => void
  signal?: AbortSignal
}

const ownTree = fileURLToPath(new URL('..', import.meta.url))

export async function startRollcall(options: RollcallOptions): Promise<Rollcall> {
  const { folder, tree = ownTree, settings = {}, onNews = () => undefined, signal } = options
  const logFile = path.join(folder, 'rollcall.log')
  const log = createWriteStream(logFile)
  const ports = { HTTP_PORT: '0', FTP_PORT: '0', FTP_PASSIVE_PORTS: '0' }
  const metricsPorts = { ENGINE_METRICS_PORT: '0', FTP_METRICS_PORT: '0' }
  const child = spawn(process.execPath, [path.join(tree, 'control-plane/cli/start.ts')], {
    env: programEnvironment({
      settings: {
        DATA_DIR: path.join(folder, 'data'),
        BOOTSTRAP_API_KEY: '',
        MONGODB_URI: '',
        ...ports,
        ...metricsPorts,
        ...settings,
      },
    }),
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
  signal?.addEventListener('abort', () => void stop(), { once: true })

  const { stdout, stderr } = child
  if (stdout === null || stderr === null) throw new Error('the service has no standard output')
  let reason = ''
  createInterface({ input: stderr }).on('line', (line) => {
    log.write(`${line}\n`)
    const { level, msg = '' } = parseLine(line)
    if (msg.startsWith('embedded MongoDB')) onNews(msg)
    if (level === 'fatal') reason ||= msg
  })
  const ready = await new Promise<ReadyLine>((resolve, reject) => {
    createInterface({ input: stdout }).on('line', (line) => resolve(JSON.parse(line) as ReadyLine))
    void ended.then(() => reject(new Error(`Rollcall didn't start: ${reason || `see ${logFile}`}`)))
  })
  const embeddedUri = async () =>
    ready.mongodb.replace(':***@', `:${await readFile(ready.mongodb_password_file ?? '', 'utf8')}@`)
  return {
    ready,
    mongodbUri: settings['MONGODB_URI'] ?? (await embeddedUri()),
    key: settings['BOOTSTRAP_API_KEY'] ?? ready.api_key ?? '',
    logFile,
    stop,
  }
}

function parseLine(line: string): { level?: string; msg?: string } {
  try {
    return JSON.parse(line) as { level?: string; msg?: string }
  } catch {
    return {}
  }
}
