import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { programEnvironment } from '../shared/runtime/config.ts'
import { endOnInterrupt } from './interrupt.ts'

/** The whole service as a child, on free ports, for the demo and the benchmarks. */
export interface Rollcall {
  ready: ReadyLine
  /** URI of its database, with the password that `ready` masks. */
  mongodbUri: string
  key: string
  logFile: string
  pid: number
  stop(): Promise<void>
}

interface ReadyLine {
  http: string
  ftp: string
  metrics: Record<string, string>
  mongodb: string
  /** null where `MONGODB_URI` names the database. */
  mongodb_password_file: string | null
}

export interface RollcallOptions {
  folder: string
  settings?: Record<string, string>
  /** Is told what takes long at a first start: where the database comes from. */
  onNews?: (text: string) => void
  signal?: AbortSignal
}

const main = fileURLToPath(new URL('../control-plane/cli/start.ts', import.meta.url))

export async function startRollcall(options: RollcallOptions): Promise<Rollcall> {
  const { folder, settings = {}, onNews = () => undefined, signal } = options
  const logFile = path.join(folder, 'rollcall.log')
  const log = createWriteStream(logFile)
  const ports = {
    HTTP_PORT: '0',
    FTP_PORT: '0',
    FTP_PASSIVE_PORTS: '0',
    ENGINE_METRICS_PORT: '0',
    FTP_METRICS_PORT: '0',
  }
  const child = spawn(process.execPath, [main], {
    env: programEnvironment({
      settings: {
        DATA_DIR: path.join(folder, 'data'),
        BOOTSTRAP_API_KEY: '',
        MONGODB_URI: '',
        ...ports,
        ...settings,
      },
    }),
    // A group of its own: Ctrl-C reaches it once, from here. When this process is killed, the channel tells it.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    detached: true,
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await ended
  }
  const forget = endOnInterrupt(stop)
  void ended.then(forget)
  signal?.addEventListener('abort', () => void stop(), { once: true })

  let reason = ''
  createInterface({ input: child.stderr! }).on('line', (line) => {
    log.write(`${line}\n`)
    const entry = parseLine(line)
    if (entry.msg?.startsWith('embedded MongoDB') === true) onNews(entry.msg)
    if (entry.level === 'fatal') reason ||= entry.msg ?? ''
  })
  const ready = await new Promise<ReadyLine & { api_key: string }>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (line) =>
      resolve(JSON.parse(line) as ReadyLine & { api_key: string }),
    )
    void ended.then(() =>
      reject(new Error(`Rollcall didn't start: ${reason === '' ? `see ${logFile}` : reason}`)),
    )
  })
  const { mongodb, mongodb_password_file: passwordFile } = ready
  const mongodbUri =
    passwordFile === null
      ? settings['MONGODB_URI']!
      : mongodb.replace(':***@', `:${await readFile(passwordFile, 'utf8')}@`)
  return {
    ready,
    mongodbUri,
    key: settings['BOOTSTRAP_API_KEY'] ?? ready.api_key,
    logFile,
    pid: child.pid!,
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
