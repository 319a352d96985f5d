import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo, Server as NetServer, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from 'prom-client'
import { clock } from './clock.ts'
import { loadSettings, type Settings } from './config.ts'
import { ensureDataFolder } from './data-folder.ts'
import { errorCode, errorMessage, StartError } from '../contract/errors.ts'
import { trimHeapWhenIdle } from './idle-memory.ts'
import { createLogger, type Logger } from './logger.ts'
import { createServer } from './node-http.ts'
import { versionWithCommit } from './package-version.ts'

/**
 * The common life cycle of all processes: start parts in order, print the ready line, serve health and metrics, stop
 * in reverse order on a signal.
 */

/** A long-lived part of a process. `stop` may be called twice. */
export interface Part {
  stop(): Promise<void>
  /** After a stop: some of its threads are still in reads or writes of files, which can't be cancelled. */
  readonly hangs?: boolean
}

export interface Process {
  settings: Settings
  log: Logger
  /** Aborted when the process begins to stop, so that a long start gives up. */
  stopping: AbortSignal
  /** Registers a part that has been started. Parts are stopped in reverse order. */
  add<T extends Part>(part: T): T
  /** Keeps a first API key, so that it is printed even if the process ends before its ready line, which shows it. */
  keepFirstKey(apiKey: string | null): void
  /** Prints that everything is ready, as one line of JSON, or on a terminal as the text for people, where there is one. */
  ready(line: Record<string, unknown>, forPeople?: string): void
  /** What `npm start` tells this process while it runs. */
  onParentMessage(listener: (message: unknown) => void): void
  /** Begins a stop, as a signal does. */
  stop(exitCode: number): void
}

export const stopTimeoutMs = 9_500
/** How long abandoned reads and writes of files may take to end, before the process is killed. */
const fileTimeoutMs = 1_000
/** Ctrl-C reaches a process twice, from the terminal and from npm. Within this time both count as one signal. */
const sameSignalMs = 250

/**
 * Runs a process until it exits, with code 0 after a signal and a clean stop, and with 1 otherwise. A second signal ends
 * it at once.
 */
export async function runProcess(name: string, start: (process: Process) => Promise<void>): Promise<void> {
  const settings = settingsOrExit(name)
  const log = createLogger({ process: name, level: settings.LOG_LEVEL, isBuffered: true })
  trimHeapWhenIdle()
  const parts: Part[] = []
  const stopping = new AbortController()
  let stoppingSince = 0
  let started: Promise<void> = Promise.resolve()
  const print = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)
  let unseenKey: string | null = null
  const printUnseenKey = () => {
    if (unseenKey !== null) print({ ready: false, api_key: unseenKey })
    unseenKey = null
  }
  process.on('exit', printUnseenKey)

  const stop = (exitCode: number): void => {
    if (stopping.signal.aborted) return
    stoppingSince = clock.monotonicMs()
    stopping.abort()
    setTimeout(() => {
      log.error(
        `the stop took longer than ${stopTimeoutMs / 1000} s, so the process ends now; others take over its work when its leases expire`,
      )
      void end(1, parts, log)
    }, stopTimeoutMs).unref()
    void started
      .catch(() => undefined)
      .then(() => stopParts(parts, log))
      .then((clean) => end(clean ? exitCode : 1, parts, log))
  }
  const stopOnSignal = (signal: NodeJS.Signals) => {
    if (stopping.signal.aborted) {
      if (clock.monotonicMs() - stoppingSince < sameSignalMs) return
      log.warn(`${signal} again: the process ends at once`)
      void end(1, parts, log)
      return
    }
    log.info(`${signal}: stopping`)
    stop(0)
  }
  process.on('SIGTERM', stopOnSignal)
  process.on('SIGINT', stopOnSignal)
  // The parent, `npm start`, was killed and can't stop this process any more.
  process.on('disconnect', () => {
    log.warn('the parent process is gone: stopping')
    stop(0)
  })
  const stopOnError = (error: unknown) => {
    log.fatal({ err: error }, `unexpected error: ${errorMessage(error)}`)
    stop(1)
  }
  process.on('unhandledRejection', stopOnError)
  process.on('uncaughtException', stopOnError)

  const starting = ensureDataFolder(settings.DATA_DIR, log).then(() =>
    start({
      settings,
      log,
      stopping: stopping.signal,
      add: (part) => {
        parts.push(part)
        return part
      },
      keepFirstKey: (apiKey) => {
        unseenKey = apiKey
      },
      ready: (line, forPeople) => {
        if (stopping.signal.aborted) return
        if (forPeople !== undefined && process.stdout.isTTY) process.stdout.write(forPeople)
        else print({ ready: true, ...line })
        log.info({ version: versionWithCommit() }, 'ready')
        unseenKey = null
      },
      onParentMessage: (listener) => void process.on('message', listener),
      stop,
    }),
  )
  // Before the exit, so that `npm start` still reads the line.
  started = starting.finally(printUnseenKey)
  try {
    await started
  } catch (error) {
    if (stopping.signal.aborted) return
    if (error instanceof StartError) {
      if (!error.isLogged) log.fatal(error.message)
    } else log.fatal({ err: error }, `couldn't start: ${errorMessage(error)}`)
    stop(1)
  }
}

function settingsOrExit(name: string): Settings {
  try {
    return loadSettings()
  } catch (error) {
    createLogger({ process: name, level: 'info' }).fatal(errorMessage(error))
    process.exit(1)
  }
}

/** An exit waits for all threads that read or write files, so only SIGKILL ends a process in which one hangs. */
async function end(exitCode: number, parts: Part[], log: Logger): Promise<void> {
  const hangs = () =>
    parts.some((part) => part.hangs === true) ||
    process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq'))
  for (let waitedMs = 0; hangs() && waitedMs < fileTimeoutMs; waitedMs += 100) await sleep(100)
  if (!hangs()) process.exit(exitCode)
  log.error('reads or writes of files hang, and an exit would wait for them: the process ends by SIGKILL')
  process.kill(process.pid, 'SIGKILL')
}

async function stopParts(parts: Part[], log: Logger): Promise<boolean> {
  let clean = true
  for (const part of parts.reverse()) {
    await part.stop().catch((error: unknown) => {
      clean = false
      log.error({ err: error }, `a part didn't stop cleanly: ${errorMessage(error)}`)
    })
  }
  return clean
}

interface ListenAddress {
  host: string
  port: number
  /** Names of the settings, for errors. */
  hostSetting: string
  portSetting: string
}

interface OperationsOptions extends ListenAddress {
  registry: Registry
  /** Resolves to the reason why the process can't work now, or null. */
  unreadyBecause: () => Promise<string | null>
}

interface Operations extends Part {
  /** `http://HOST:PORT` */
  url: string
}

/** Scrapes and probes need a few connections; each is an open file. */
const maxOperationsConnections = 64

/** Serves `/metrics`, `/healthz` and `/readyz`. */
export async function serveOperations(options: OperationsOptions): Promise<Operations> {
  const server = createServer((request, response) => {
    void answerOperations(request.url ?? '/', options).then(({ status, type, body }) => {
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
    })
  })
  closeOldest(server, maxOperationsConnections)
  const { port } = await listen(server, options)
  return { url: `http://${hostInUrl(options.host)}:${port}`, stop: () => closeServer(server) }
}

/**
 * Closes the oldest connection for each one above `max`, so that idle connections can't keep new clients from a reply.
 */
function closeOldest(server: NetServer, max: number): void {
  const open = new Set<Socket>()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    const [oldest] = open
    if (open.size > max) oldest?.destroy()
  })
}

export const operationsPaths = ['/metrics', '/healthz', '/readyz']

interface OperationsAnswer {
  status: number
  type: string
  body: string
}

/** Replies to a path. A failure gives 503 with its reason. */
export async function answerOperations(
  path: string,
  options: Pick<OperationsOptions, 'registry' | 'unreadyBecause'>,
): Promise<OperationsAnswer> {
  const text = (status: number, body: string): OperationsAnswer => ({
    status,
    type: 'text/plain; charset=utf-8',
    body: `${body}\n`,
  })
  switch (path.split('?')[0]) {
    case '/metrics':
      try {
        return { status: 200, type: options.registry.contentType, body: await options.registry.metrics() }
      } catch (error) {
        return text(503, `the metrics can't be read: ${errorMessage(error)}`)
      }
    case '/healthz':
      return text(200, 'alive')
    case '/readyz': {
      const reason = await options.unreadyBecause().catch(errorMessage)
      return reason === null ? text(200, 'ready') : text(503, reason)
    }
    default:
      return text(404, 'not found: the paths are /metrics, /healthz and /readyz')
  }
}

/** Listens for HTTP or FTP. Throws a StartError that names the setting. */
export async function listen(server: NetServer, address: ListenAddress): Promise<AddressInfo> {
  server.listen(address.port, address.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw new StartError(describeListenError(error, address), { cause: error })
  }
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('the server listens on no TCP port')
  return bound
}

function describeListenError(
  error: unknown,
  { host, port, hostSetting, portSetting }: ListenAddress,
): string {
  const address = `${host}:${port}`
  const advice = `set ${portSetting} to another port, or to 0 for a free one`
  const code = errorCode(error)
  if (code === 'EADDRINUSE') return `can't listen on ${address}: another program uses the port; ${advice}`
  if (code === 'EACCES') return `can't listen on ${address}: this user isn't allowed to; ${advice}`
  const isWrongHost = ['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL'].includes(code)
  const hostAdvice = isWrongHost ? `; set ${hostSetting} to an address of this machine` : ''
  return `can't listen on ${address}: ${errorMessage(error)}${hostAdvice}`
}

/** Stops accepting connections, waits for running requests, and closes each connection when it is idle. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    if (!server.listening) {
      resolve()
      return
    }
    const sweep = setInterval(() => server.closeIdleConnections(), 50)
    server.close(() => {
      clearInterval(sweep)
      resolve()
    })
    server.closeIdleConnections()
  })
}

export const hostInUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host)
