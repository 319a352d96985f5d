import type { FtpSrv } from 'ftp-srv'
import type { AuthThrottle } from '../shared/store/api-keys.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { Collections } from '../shared/contract/schemas/collections.ts'
import type { UploadLimits } from '../shared/store/upload-usage.ts'
import type { KeyedMutex } from '../shared/runtime/keyed-mutex.ts'
import type { Uploads } from '../shared/storage/uploads/upload-store.ts'
import type { Certificate } from './connection/certificate.ts'
import type { Command } from './connection/command-lines.ts'
import type { ConnectionLimits } from './connection/connection-limits.ts'
import type { ControlConnection, ControlHandler } from './connection/control-connection.ts'
import type { DataConnection } from './connection/data-connection.ts'
import type { PassivePorts } from './connection/passive-ports.ts'
import { FtpSrvConnection, quiet } from './ftp-srv-internals.ts'
import { Interruption } from './interruption.ts'
import type { FtpMetrics, SessionEnd } from './metrics.ts'

/** What all sessions of a server have in common. */
export interface SessionDeps {
  /** The IPv4 address that PASV names; null: the one that the client connected to. */
  publicAddress: string | null
  uploads: Uploads
  uploadLimits: UploadLimits
  collections: Collections
  keyHashSecret: Uint8Array
  throttle: AuthThrottle
  metrics: FtpMetrics
  log: Logger
  timeouts: FtpTimeouts
  /** Null when TLS is not offered. */
  certificate: Certificate | null
  isTlsRequired: boolean
  /** Whether data connections must resume the TLS session of their control connection. */
  mustResumeTls: boolean
  limits: ConnectionLimits
  ports: PassivePorts
  /** Of logins, by address. */
  mutex: KeyedMutex<string>
  ftpSrv: FtpSrv
}

export interface FtpTimeouts {
  /** From the connection to the login, TLS handshake included. */
  loginMs: number
  /** Between two commands, but not during a transfer. */
  idleMs: number
  /** Without a byte for so long a data connection is dead. */
  stallMs: number
  /** For the data connection to come about, and then for its handshake. */
  dataConnectionMs: number
  /** How long PASV waits for a port when there is none. */
  passivePortMs: number
  /** At the stop, for what sessions have to tell the database at last. */
  stopMs: number
  /** Between two looks at the keys of the sessions. */
  keyWatchMs: number
  /** Between two looks at the certificate's files. */
  certificateWatchMs: number
}

/** ftp-srv's session, on our connections. It ends by QUIT, by its client's going, or by `end`. */
export class FtpSession extends FtpSrvConnection implements ControlHandler {
  readonly control: ControlConnection
  readonly context: SessionDeps
  readonly interruption = new Interruption()
  /** Where the next transfer goes; of PASV, EPSV, PORT or EPRT. */
  data: DataConnection | null = null
  /** After EPSV ALL there is no other way to a data connection. */
  isExtendedPassiveOnly = false
  /** Bytes of the next upload, where ALLO told them. */
  announced: number | undefined
  /** Bytes of the transfer that runs; null when none does. */
  transferred: number | null = null
  /** Of data connections, as PROT sets it. */
  isDataPrivate: boolean
  /** The facts that MLSD and MLST tell; null: all. */
  facts: string[] | null = null
  account: { keyId: number; organizationId: number } | null = null
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
    this.isDataPrivate = control.secureContext !== null
    this.#loginTimer = setTimeout(() => {
      if (this.account === null)
        this.end('login_timeout', `nobody logged in within ${timeouts.loginMs / 1000} s`)
    }, timeouts.loginMs)
    this.#idleTimer = setTimeout(() => {
      if (this.interruption.isTransferring) this.#idleTimer.refresh()
      else this.end('idle', `no command came for ${timeouts.idleMs / 1000} s`)
    }, timeouts.idleMs)
    control.once('close', () => {
      clearTimeout(this.#loginTimer)
      clearTimeout(this.#idleTimer)
      this.data?.close()
    })
  }

  /** Says why, and ends the session with whatever it does. */
  end(cause: SessionEnd, reason: string): void {
    if (this.control.destroyed) return
    this.endedBy = cause
    this.control.write(`421 ${reason}\r\n`)
    this.control.destroy()
  }

  /** Resolves when no command runs any more. */
  async idle(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Whether AUTH would be followed by a handshake if it came now. */
  willBeSecured({ directive, arg }: Command): boolean {
    return (
      directive === 'AUTH' &&
      this.context.certificate !== null &&
      this.control.secureContext === null &&
      /^(TLS|TLS-C|SSL)$/i.test(arg ?? '')
    )
  }

  onArrival(command: Command): boolean {
    if (command.directive === 'ABOR') this.interruption.abort()
    if (this.willBeSecured(command)) this.control.ignore()
    const isStatus = command.directive === 'STAT' && command.arg === null
    if (isStatus && this.transferred !== null && !this.control.isUnread) {
      void this.reply(211, `a transfer is running, ${this.transferred} bytes so far`)
      return true
    }
    return false
  }

  async onCommand(command: Command): Promise<void> {
    this.#idleTimer.refresh()
    if (command.directive === 'QUIT') this.endedBy = 'quit'
    const isCommand = /^[A-Z]{3,4}$/.test(command.directive)
    const answer = isCommand ? this.commands.handle(command) : this.reply(500, 'that is no command')
    this.#running.add(answer)
    try {
      await answer
    } finally {
      this.#running.delete(answer)
      if (command.directive === 'ABOR') this.interruption.abortIsAnswered()
      this.#idleTimer.refresh()
    }
  }

  async onNonsense(reason: string): Promise<void> {
    await this.reply(501, reason)
  }

  onOverlongLine(): void {
    this.endedBy = 'flood'
    this.control.write('500 the command line is too long\r\n')
    this.control.destroy()
  }

  onFlood(): void {
    this.end('flood', 'too many commands wait for their answers')
  }

  onHangUp(): void {
    this.interruption.hangUp()
  }
}
