import { once, type EventEmitter } from 'node:events'
import { createServer } from 'node:net'
import { FtpSrv } from 'ftp-srv'
import { findCaller, type AuthThrottle } from '../shared/api-keys.ts'
import type { Collections } from '../shared/schemas/collections.ts'
import { parsePortRange } from '../shared/config.ts'
import { StartError } from '../shared/errors.ts'
import type { Logger } from '../shared/logger.ts'
import { describeListenError, type Part } from '../shared/service.ts'
import type { UploadLimits } from '../shared/store/upload-usage.ts'
import type { Uploads } from '../shared/uploads/upload-store.ts'
import { installCommands } from './commands.ts'
import { readControlLines } from './control-connection.ts'
import type { ServerInternals, Session } from './ftp-srv-internals.ts'
import type { FtpMetrics } from './metrics.ts'
import { UploadDirectory } from './upload-directory.ts'

export interface FtpServerOptions {
  host: string
  port: number
  passivePorts: string
  publicAddress: string | null
  uploads: Uploads
  uploadLimits: UploadLimits
  collections: Collections
  keyHashSecret: Uint8Array
  throttle: AuthThrottle
  metrics: FtpMetrics
  log: Logger
}

export interface FtpServer extends Part {
  port: number
}

const idleMs = 5 * 60_000

/** Starts ftp-srv inside our layer: its framing, signal handlers and port search are replaced, its TLS is not offered. */
export async function startFtpServer(options: FtpServerOptions): Promise<FtpServer> {
  const { host, log, metrics } = options
  const server = withoutSignalHandlers(
    () =>
      new FtpSrv({
        url: `ftp://${host}:${options.port}`,
        pasv_url: host,
        timeout: idleMs,
        log: quietLog(log),
      }),
  ) as unknown as ServerInternals
  server.getNextPasvPort = passivePorts(host, options.passivePorts)
  const commandsEnd = installCommands({
    publicAddress: options.publicAddress,
    onBytes: (direction, bytes) => metrics.bytes(direction, bytes),
    log,
  })

  const events: EventEmitter = server
  events.on('connect', ({ connection: session }: { connection: Session }) => {
    metrics.sessions(1)
    session.commandSocket.once('close', () => metrics.sessions(-1))
    readControlLines(session, (error) => log.debug({ err: error }, 'an FTP command was refused'))
  })
  server.on('login', ({ connection, username, password }, resolve, reject) => {
    logIn(connection as unknown as Session, username, password, options).then(
      (fs) => resolve({ fs: fs as never }),
      (error: unknown) => reject(error as Error),
    )
  })
  await listen(server, options)
  return {
    port: (server.server.address() as { port: number }).port,
    async stop() {
      await server.close()
      // Uploads that this broke off give their locks back while the database is still there.
      await commandsEnd()
    },
  }
}

async function logIn(
  session: Session,
  username: string,
  password: string,
  options: FtpServerOptions,
): Promise<UploadDirectory> {
  const { throttle, metrics, collections, keyHashSecret } = options
  const address = session.ip.replace(/^::ffff:/, '')
  if ((await throttle.blockedSeconds(address)) > 0)
    return refuse('throttled', 'too many wrong logins came from this address, try again in a minute')
  const caller = username === 'api' ? await findCaller(collections, keyHashSecret, password) : null
  if (caller === null) {
    session.username = undefined
    await throttle.noteFailure(address)
    return refuse('wrong', 'log in as user api with an API key as password')
  }
  if (caller.permissions['subscriber']?.includes('import') !== true)
    return refuse('forbidden', 'this API key lacks the permission subscriber/import')
  metrics.login('ok')
  const { organizationId } = caller
  const directory = new UploadDirectory({
    uploads: options.uploads,
    limits: options.uploadLimits,
    organizationId,
    collections,
    log: options.log,
  })
  await directory.prepare()
  return directory

  function refuse(result: 'throttled' | 'wrong' | 'forbidden', message: string): never {
    metrics.login(result)
    throw new Error(message)
  }
}

/** ftp-srv adds handlers that end the process on a signal, in the middle of our own orderly stop. */
function withoutSignalHandlers<T>(make: () => T): T {
  const signals = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const
  const before = new Map(signals.map((signal) => [signal, process.listeners(signal)]))
  const made = make()
  for (const signal of signals) {
    for (const listener of process.listeners(signal))
      if (!before.get(signal)!.includes(listener)) process.off(signal, listener)
  }
  return made
}

/** The next port of the range on which nobody listens; the whole range is tried before giving up. */
function passivePorts(host: string, text: string): () => Promise<number> {
  const { first, last } = parsePortRange(text)!
  let next = first
  return async () => {
    if (first === 0) return 0
    for (let tries = 0; tries <= last - first; tries += 1) {
      const port = next
      next = next === last ? first : next + 1
      if (await isFree(host, port)) return port
    }
    throw new Error(`all passive ports from ${first} to ${last} are in use`)
  }
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => {
      resolve(false)
    })
    probe.listen(port, host, () => {
      probe.close(() => {
        resolve(true)
      })
    })
  })
}

async function listen(server: ServerInternals, options: FtpServerOptions): Promise<void> {
  server.server.listen(options.port, options.host)
  try {
    await once(server.server, 'listening')
  } catch (error) {
    throw new StartError(
      describeListenError(error as NodeJS.ErrnoException, {
        host: options.host,
        port: options.port,
        setting: 'FTP_PORT',
      }),
      { cause: error },
    )
  }
}

/** ftp-srv logs every command and stack; of that only warnings are worth a line. */
function quietLog(log: Logger): unknown {
  const quiet = log.child({ part: 'ftp-srv' }, { level: log.level === 'trace' ? 'trace' : 'fatal' })
  return quiet
}
