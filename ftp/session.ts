import type { FtpSrv } from 'ftp-srv'
import type { AuthThrottle, KeyHolder } from '../shared/store/api-keys.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { Collections } from '../shared/contract/schemas/collections.ts'
import { keyPollMs, type KeyWatched } from '../shared/processes/key-watch.ts'
import type { UploadLimits } from '../shared/store/ledger.ts'
import type { TransferMetrics, TransferProtocol } from '../shared/storage/uploads/transfer-metrics.ts'
import type { Uploads } from '../shared/storage/uploads/open-uploads.ts'
import type { Certificate } from './connection/certificate.ts'
import { maxLineBytes, type Command } from './connection/command-lines.ts'
import type { ConnectionLimits } from './connection/connection-limits.ts'
import type { ControlConnection, ControlHandler } from './connection/control-connection.ts'
import type { DataConnection } from './connection/data-connection.ts'
import type { PassivePorts } from './connection/passive-ports.ts'
import type { FtpDirectory } from './ftp-directory.ts'
import { printable } from './ftp-error.ts'
import { FtpSrvConnection, quiet } from './ftp-srv-internals.ts'
import { Interruption } from './interruption.ts'
import type { FtpMetrics, SessionEnd } from './metrics.ts'

/** What all sessions of a server share. */
export interface SessionDeps {
  /** The IPv4 address that PASV announces; null announces the address that the client connected to. */
  publicAddress: string | null
  uploads: Uploads
  uploadLimits: UploadLimits
  collections: Collections
  keyHashSecret: Uint8Array
  throttle: AuthThrottle
  metrics: FtpMetrics
  transfers: TransferMetrics
  log: Logger
  timeouts: FtpTimeouts
  /** Null when the server offers no TLS. */
  certificate: Certificate | null
  isTlsRequired: boolean
  /** Whether data connections must resume the TLS session of their control connection. */
  mustResumeTls: boolean
  limits: ConnectionLimits
  ports: PassivePorts
  ftpSrv: FtpSrv
}

export const defaultTimeouts = {
  /** From the connection to the login, the TLS handshake included. */
  loginMs: 60_000,
  /** From one command to the next; a transfer pauses it. */
  idleMs: 5 * 60_000,
  /** A data connection without a byte for this time is dead. */
  stallMs: 5 * 60_000,
  /** For opening a data connection, and again for its TLS handshake. */
  dataConnectionMs: 30_000,
  /** For a free port, when PASV or EPSV finds none. */
  passivePortMs: 5_000,
  /** At the stop of the server, for the last writes of sessions to the database. */
  stopMs: 3_000,
  keyPollMs,
  /** Interval between two checks of the certificate's files. */
  certificateWatchMs: 5_000,
}

export type FtpTimeouts = typeof defaultTimeouts

export type LoggedInSession = FtpSession & { fs: FtpDirectory; account: KeyHolder }

/** A session of ftp-srv on one of our connections. It ends by QUIT, when its client disconnects, or by `end`. */
export class FtpSession extends FtpSrvConnection implements ControlHandler, KeyWatched {
  readonly control: ControlConnection
  readonly context: SessionDeps
  readonly interruption = new Interruption()
  /** The connection of the next transfer, which PASV, EPSV, PORT or EPRT prepared. */
  data: DataConnection | null = null
  /** EPSV ALL forbids all other ways to a data connection. */
  isExtendedPassiveOnly = false
  /** Size of the next upload, from ALLO. */
  announcedBytes: number | undefined
  /** Bytes of the running transfer; null when there is none. */
  transferredBytes: number | null = null
  /** Whether data connections use TLS, as PROT sets it. */
  isDataPrivate: boolean
  /** The facts that MLSD and MLST show; null shows all. */
  facts: string[] | null = null
  account: KeyHolder | null = null
  /** Logs what the client does; from the login on its lines say whose key that is. */
  clientLog: Logger
  wrongLogins = 0
  endedBy: SessionEnd = 'connection_lost'
  readonly #running = new Set<Promise<unknown>>()
  readonly #loginTimer: NodeJS.Timeout
  readonly #idleTimer: NodeJS.Timeout

  constructor(control: ControlConnection, context: SessionDeps) {
    super(context.ftpSrv, { socket: control, log: quiet(context.log) })
    const { timeouts } = context
    this.control = control
    this.context = context
    this.isDataPrivate = control.tls !== null
    this.clientLog = context.log
    this.#loginTimer = setTimeout(() => {
      if (this.account === null) this.end('login_timeout', `no login within ${timeouts.loginMs / 1000} s`)
    }, timeouts.loginMs)
    this.#idleTimer = setTimeout(() => {
      if (this.interruption.isTransferring) this.#idleTimer.refresh()
      else this.end('idle', `no command for ${timeouts.idleMs / 1000} s; send NOOP to stay connected`)
    }, timeouts.idleMs)
    control.once('close', () => {
      clearTimeout(this.#loginTimer)
      clearTimeout(this.#idleTimer)
      this.data?.close()
    })
  }

  get protocol(): TransferProtocol {
    return this.control.tls === null ? 'ftp' : 'ftps'
  }

  isLoggedIn(): this is LoggedInSession {
    return this.fs !== undefined && this.account !== null
  }

  /** Tells the client the reason, and ends the session with its transfer. */
  end(cause: SessionEnd, reason: string): void {
    if (this.control.destroyed) return
    this.endedBy = cause
    this.control.write(`421 ${reason}\r\n`)
    this.control.destroy()
  }

  onKeyRevoked(): void {
    this.end('key_revoked', 'the API key of this session was changed or may no longer upload')
  }

  /** Resolves when the running commands have ended. */
  async whenIdle(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Closes the data connection that was prepared before, if any. */
  replaceData(data: DataConnection | null): void {
    this.data?.close()
    this.data = data
  }

  countTransferred(bytes: number): void {
    this.transferredBytes = (this.transferredBytes ?? 0) + bytes
  }

  /** Whether this command starts a TLS handshake if it runs now. */
  startsTls({ directive, arg }: Command): boolean {
    return (
      directive === 'AUTH' &&
      this.context.certificate !== null &&
      this.control.tls === null &&
      /^(TLS|TLS-C|SSL)$/i.test(arg ?? '')
    )
  }

  onArrival(command: Command): boolean {
    if (command.directive === 'ABOR') this.interruption.abort()
    if (this.startsTls(command)) this.control.discardInput()
    const isStatus = command.directive === 'STAT' && command.arg === null
    if (isStatus && this.transferredBytes !== null && !this.control.isUnread) {
      void this.reply(211, `transfer in progress, ${this.transferredBytes} bytes so far`)
      return true
    }
    return false
  }

  async onCommand(command: Command): Promise<void> {
    this.#idleTimer.refresh()
    if (command.directive === 'QUIT') this.endedBy = 'quit'
    const isCommand = /^[A-Z]{3,4}$/.test(command.directive)
    const answer = isCommand
      ? this.commands.handle(command)
      : this.reply(500, `${printable(command.directive)}: not a command, HELP lists the commands`)
    this.#running.add(answer)
    try {
      await answer
    } finally {
      this.#running.delete(answer)
      if (command.directive === 'ABOR') this.interruption.abortIsAnswered()
      this.#idleTimer.refresh()
    }
  }

  async onMalformedLine(reason: string): Promise<void> {
    await this.reply(501, reason)
  }

  onOverlongLine(): void {
    this.endedBy = 'flood'
    this.control.write(`500 the command line is too long; at most ${maxLineBytes} bytes are allowed\r\n`)
    this.control.destroy()
  }

  onFlood(): void {
    this.end('flood', 'too many commands are waiting; read the replies before sending more')
  }

  onHangUp(): void {
    this.interruption.hangUp()
  }
}
