import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { parsePortRange } from '../shared/runtime/config.ts'
import { StartError } from '../shared/contract/errors.ts'
import { listen, type Part } from '../shared/runtime/service.ts'
import { within } from '../shared/runtime/within.ts'
import { KeyWatch } from '../shared/processes/key-watch.ts'
import { installCommands } from './commands/command-table.ts'
import { Certificate, type CertificateFiles } from './connection/certificate.ts'
import { ConnectionLimits, type SessionLimits } from './connection/connection-limits.ts'
import { ControlConnection } from './connection/control-connection.ts'
import { PassivePorts } from './connection/passive-ports.ts'
import { createFtpSrv } from './ftp-srv-internals.ts'
import { defaultTimeouts, FtpSession, type FtpTimeouts, type SessionDeps } from './session.ts'

export interface FtpServerOptions extends Pick<
  SessionDeps,
  | 'publicAddress'
  | 'uploads'
  | 'uploadLimits'
  | 'collections'
  | 'keyHashSecret'
  | 'throttle'
  | 'metrics'
  | 'transfers'
  | 'log'
> {
  host: string
  port: number
  /** In the form of the setting FTP_PASSIVE_PORTS. */
  passivePorts: string
  sessions: SessionLimits
  /** Null: no TLS. `implicitPort`: where connections begin with the handshake; null for no such port. */
  tls: (CertificateFiles & { implicitPort: number | null; isRequired: boolean; mustResume: boolean }) | null
  timeouts?: Partial<FtpTimeouts>
}

interface FtpServer extends Part {
  port: number
  /** Null without implicit TLS. */
  implicitTlsPort: number | null
}

/**
 * Up to this number of connections above the session limit get a reply with the reason; more are closed without one.
 */
const maxRefused = 100
const refusedHandshakeMs = 2_000

/**
 * Accepts connections, limits and secures them, and passes their commands to ftp-srv's sessions one by one. ftp-srv
 * itself never listens.
 */
export async function startFtpServer(options: FtpServerOptions): Promise<FtpServer> {
  installCommands()
  const { host, log, tls } = options
  const timeouts = { ...defaultTimeouts, ...options.timeouts }
  const passiveRange = parsePortRange(options.passivePorts)
  if (passiveRange === null)
    throw new StartError(
      `setting FTP_PASSIVE_PORTS ${JSON.stringify(options.passivePorts)} must be FIRST-LAST, or 0 for any free port`,
    )
  const certificate =
    tls === null ? null : await Certificate.load(tls, { pollMs: timeouts.certificateWatchMs, log })
  const context: SessionDeps = {
    ...options,
    timeouts,
    certificate,
    isTlsRequired: tls?.isRequired ?? false,
    mustResumeTls: tls?.mustResume ?? false,
    limits: new ConnectionLimits(options.sessions),
    ports: new PassivePorts({ host, ...passiveRange, timeoutMs: timeouts.passivePortMs }),
    ftpSrv: createFtpSrv(log),
  }
  const gate = new Gate(context)
  const keyWatch = new KeyWatch({
    watched: gate.sessions,
    collections: options.collections,
    pollMs: timeouts.keyPollMs,
    log,
  })
  const servers: Server[] = []
  const open = async (
    port: number,
    portSetting: string,
    implicitTls: Certificate | null,
  ): Promise<number> => {
    const server = createServer((socket) => void gate.accept(socket, implicitTls))
    server.maxConnections = options.sessions.inProcess + maxRefused
    servers.push(server)
    return (await listen(server, { host, port, hostSetting: 'FTP_HOST', portSetting })).port
  }
  const stop = async () => {
    for (const server of servers) server.close()
    await gate.endSessions()
    await Promise.all([keyWatch.stop(), certificate?.stop()])
  }
  try {
    const port = await open(options.port, 'FTP_PORT', null)
    const implicitPort = tls?.implicitPort ?? null
    const implicitTlsPort = implicitPort === null ? null : await open(implicitPort, 'FTPS_PORT', certificate)
    return { port, implicitTlsPort, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Turns connections into sessions, or refuses them. */
class Gate {
  readonly sessions = new Set<FtpSession>()
  readonly #connections = new Set<ControlConnection>()
  readonly #context: SessionDeps

  constructor(context: SessionDeps) {
    this.#context = context
  }

  async accept(socket: Socket, implicitTls: Certificate | null): Promise<void> {
    const { timeouts, metrics } = this.#context
    const control = new ControlConnection(socket)
    this.#connections.add(control)
    control.once('close', () => this.#connections.delete(control))
    const refusal = this.#countSession(control)
    if (refusal !== null) metrics.connectionRefused()
    if (refusal !== null && !this.#countRefused(control)) {
      socket.destroy()
      return
    }
    const timeoutMs = refusal === null ? timeouts.loginMs : refusedHandshakeMs
    if (
      implicitTls !== null &&
      !(await control.startTls((hello) => implicitTls.sessionTls(hello), { timeoutMs }))
    )
      return
    if (refusal === null) this.#beginSession(control)
    else {
      control.write(`421 ${refusal}\r\n`)
      control.destroy()
    }
  }

  /** Ends all sessions with their transfers. Unfinished uploads stay, and clients can resume them. */
  async endSessions(): Promise<void> {
    const sessions = [...this.sessions]
    for (const session of sessions)
      session.end('stop', 'the server is stopping; connect again later to resume')
    for (const control of this.#connections) control.destroy()
    await Promise.all([...this.#connections].map((control) => once(control, 'close')))
    const { log, timeouts } = this.#context
    const idle = Promise.all(sessions.map((session) => session.whenIdle()))
    if ((await within(timeouts.stopMs, idle, 'timeout')) === 'timeout')
      log.warn(
        `FTP sessions had not ended ${timeouts.stopMs / 1000} s after their connections, perhaps because the database doesn't answer; the locks of their uploads expire by themselves`,
      )
  }

  /** The reason of a refusal, or null when the session was counted. */
  #countSession(control: ControlConnection): string | null {
    const { limits, metrics } = this.#context
    const refusal = limits.enter(control.remoteAddress)
    if (refusal !== null) return refusal
    metrics.sessions(1)
    control.once('close', () => {
      limits.release(control.remoteAddress)
      metrics.sessions(-1)
    })
    return null
  }

  #countRefused(control: ControlConnection): boolean {
    const { limits } = this.#context
    if (!limits.refused.add(control.remoteAddress)) return false
    control.once('close', () => {
      limits.refused.remove(control.remoteAddress)
    })
    return true
  }

  #beginSession(control: ControlConnection): void {
    const session = new FtpSession(control, this.#context)
    this.sessions.add(session)
    control.once('close', () => {
      this.sessions.delete(session)
      this.#context.metrics.sessionEnded(session.endedBy)
    })
    void session.reply(220, 'Rollcall FTP server: log in as user api with an API key as password')
    control.listen(session)
  }
}
