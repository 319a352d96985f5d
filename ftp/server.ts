import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parsePortRange } from '../shared/runtime/config.ts'
import { listen, type Part } from '../shared/runtime/service.ts'
import { KeyedMutex } from '../shared/runtime/keyed-mutex.ts'
import { installCommands } from './commands/command-table.ts'
import { Certificate, type CertificateFiles } from './connection/certificate.ts'
import { ConnectionLimits, type SessionLimits } from './connection/connection-limits.ts'
import { ControlConnection } from './connection/control-connection.ts'
import { PassivePorts } from './connection/passive-ports.ts'
import { createFtpSrv } from './ftp-srv-internals.ts'
import { KeyWatch } from './key-watch.ts'
import { FtpSession, type FtpTimeouts, type SessionDeps } from './session.ts'

export interface FtpServerOptions extends Pick<
  SessionDeps,
  | 'publicAddress'
  | 'uploads'
  | 'uploadLimits'
  | 'collections'
  | 'keyHashSecret'
  | 'throttle'
  | 'metrics'
  | 'log'
> {
  host: string
  port: number
  /** As FTP_PASSIVE_PORTS has it. */
  passivePorts: string
  sessions: SessionLimits
  /** Null: TLS is not offered. `implicitPort`: where TLS begins with the connection, null for nowhere. */
  tls: (CertificateFiles & { implicitPort: number | null; isRequired: boolean; mustResume: boolean }) | null
  timeouts?: Partial<FtpTimeouts>
}

export interface FtpServer extends Part {
  port: number
  /** Null where there is no implicit TLS. */
  implicitTlsPort: number | null
}

const defaultTimeouts: FtpTimeouts = {
  loginMs: 60_000,
  idleMs: 5 * 60_000,
  stallMs: 5 * 60_000,
  dataConnectionMs: 30_000,
  passivePortMs: 5_000,
  stopMs: 3_000,
  keyWatchMs: 1_500,
  certificateWatchMs: 5_000,
}

/** So many connections above the limit may hear why they are refused; more are just closed. */
const maxRefused = 100
/** Milliseconds for the TLS handshake of one that is refused. */
const refusedHandshakeMs = 2_000

installCommands()

/**
 * The front that clients meet: it accepts connections, limits and secures them, and gives ftp-srv's sessions their
 * commands one by one. ftp-srv itself never listens.
 */
export async function startFtpServer(options: FtpServerOptions): Promise<FtpServer> {
  const { host, log, tls } = options
  const timeouts = { ...defaultTimeouts, ...options.timeouts }
  const certificate =
    tls === null ? null : await Certificate.load(tls, { pollMs: timeouts.certificateWatchMs, log })
  const limits = new ConnectionLimits(options.sessions)
  const context: SessionDeps = {
    ...options,
    timeouts,
    certificate,
    isTlsRequired: tls?.isRequired ?? false,
    mustResumeTls: tls?.mustResume ?? false,
    limits,
    ports: new PassivePorts({
      host,
      ...parsePortRange(options.passivePorts)!,
      timeoutMs: timeouts.passivePortMs,
    }),
    mutex: new KeyedMutex(),
    ftpSrv: createFtpSrv(log),
  }
  const gate = new Gate(context)
  const keyWatch = new KeyWatch({
    sessions: gate.sessions,
    collections: options.collections,
    pollMs: timeouts.keyWatchMs,
    log,
  })
  const parts: Part[] = [keyWatch, ...(certificate === null ? [] : [certificate])]
  const servers: Server[] = []
  const open = async (port: number, setting: string, isImplicitTls: boolean): Promise<number> => {
    const server = createServer((socket) => void gate.accept(socket, isImplicitTls))
    server.maxConnections = options.sessions.inProcess + maxRefused
    servers.push(server)
    return (await listen(server, { host, port, setting })).port
  }
  const stop = async () => {
    for (const server of servers) server.close()
    await gate.empty()
    await Promise.all(parts.map((part) => part.stop()))
  }
  try {
    const port = await open(options.port, 'FTP_PORT', false)
    const implicitPort = tls?.implicitPort ?? null
    const implicitTlsPort = implicitPort === null ? null : await open(implicitPort, 'FTPS_PORT', true)
    return { port, implicitTlsPort, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Where connections become sessions, or are refused. */
class Gate {
  readonly sessions = new Set<FtpSession>()
  readonly #connections = new Set<ControlConnection>()
  readonly #context: SessionDeps

  constructor(context: SessionDeps) {
    this.#context = context
  }

  async accept(socket: Socket, isImplicitTls: boolean): Promise<void> {
    const { certificate, timeouts } = this.#context
    const control = new ControlConnection(socket)
    this.#connections.add(control)
    control.once('close', () => this.#connections.delete(control))
    const refusal = this.#count(control)
    if (refusal !== null) this.#context.metrics.connectionRefused()
    if (refusal !== null && !this.#countRefused(control)) {
      socket.destroy()
      return
    }
    const timeoutMs = refusal === null ? timeouts.loginMs : refusedHandshakeMs
    if (isImplicitTls && !(await control.secure(certificate!.newContext(), { timeoutMs }))) return
    if (refusal === null) this.#begin(control)
    else {
      control.write(`421 ${refusal}\r\n`)
      control.destroy()
    }
  }

  /** Ends all sessions and what they do; uploads stay as they are, to be gone on with. */
  async empty(): Promise<void> {
    const sessions = [...this.sessions]
    for (const session of sessions) session.end('stop', 'the server stops')
    for (const control of this.#connections) control.destroy()
    await Promise.all([...this.#connections].map((control) => once(control, 'close')))
    const { log, timeouts } = this.#context
    const isTimedOut = new AbortController()
    const timedOut = sleep(timeouts.stopMs, 'over', { signal: isTimedOut.signal }).catch(() => 'not needed')
    const outcome = await Promise.race([Promise.all(sessions.map((session) => session.idle())), timedOut])
    isTimedOut.abort()
    if (outcome === 'over')
      log.warn(
        `sessions had not ended ${timeouts.stopMs / 1000} s after their connections, as when the database is silent; locks of uploads run out by themselves`,
      )
  }

  #count(control: ControlConnection): string | null {
    const { limits, metrics } = this.#context
    const refusal = limits.refusalOf(control.remoteAddress)
    if (refusal !== null) return refusal
    metrics.sessions(1)
    control.once('close', () => {
      limits.leave(control.remoteAddress)
      metrics.sessions(-1)
    })
    return null
  }

  #countRefused(control: ControlConnection): boolean {
    const { limits } = this.#context
    if (!limits.enterRefused(control.remoteAddress)) return false
    control.once('close', () => {
      limits.leaveRefused(control.remoteAddress)
    })
    return true
  }

  #begin(control: ControlConnection): void {
    const session = new FtpSession(control, this.#context)
    this.sessions.add(session)
    control.once('close', () => {
      this.sessions.delete(session)
      this.#context.metrics.sessionEnded(session.endedBy)
    })
    void session.reply(220, 'Rollcall')
    control.listen(session)
  }
}
