import { connect, type Socket } from 'node:net'
import { FtpError } from '../ftp-error.ts'
import type { PassivePort } from './passive-ports.ts'
import type { SessionTls } from './session-tls.ts'
import { closeGently, completeHandshake, plainAddress } from './sockets.ts'

interface Timeouts {
  signal: AbortSignal
  timeoutMs: number
}

/** The connection of a session's next transfer: prepared by PASV or PORT, opened when the transfer begins. */
export abstract class DataConnection {
  protected socket: Socket | null = null

  /** Throws FtpError 425 when the connection isn't open in time, and `signal`'s reason when that is aborted. */
  async open({ signal, timeoutMs }: Timeouts): Promise<Socket> {
    signal.throwIfAborted()
    const failed = Promise.withResolvers<never>()
    const onAbort = () => {
      const reason: unknown = signal.reason
      failed.reject(reason)
    }
    const timer = setTimeout(() => {
      failed.reject(this.notOpened())
    }, timeoutMs)
    signal.addEventListener('abort', onAbort)
    try {
      return await Promise.race([this.opened(), failed.promise])
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Upgrades to TLS. The client starts the handshake when it wants to, and many do so only after reply 150. */
  async startTls(
    tls: SessionTls,
    { mustResume, ...timeouts }: Timeouts & { mustResume: boolean },
  ): Promise<Socket> {
    if (this.socket === null) throw this.notOpened()
    const secure = tls.wrap(this.socket)
    this.socket = secure
    if (!(await completeHandshake(secure, timeouts))) {
      timeouts.signal.throwIfAborted()
      throw new FtpError(425, 'the TLS handshake of the data connection failed; try again')
    }
    if (mustResume && !secure.isSessionReused())
      throw new FtpError(
        522,
        'the data connection must resume the TLS session of the control connection; use a client that does so',
      )
    return secure
  }

  /** May be called at any time and more than once. */
  close(): void {
    if (this.socket !== null) closeGently(this.socket)
  }

  protected abstract opened(): Promise<Socket>
  protected abstract notOpened(cause?: unknown): FtpError
}

/** The client connects to us. A connection from another address is closed, and the client can still connect. */
export class PassiveConnection extends DataConnection {
  readonly #passive: PassivePort
  readonly #arrival = Promise.withResolvers<Socket>()
  readonly #timer: NodeJS.Timeout

  /** Releases the port when the client hasn't connected within `waitMs`. */
  constructor(options: { passive: PassivePort; peer: string; waitMs: number }) {
    super()
    const { passive, peer, waitMs } = options
    this.#passive = passive
    this.#timer = setTimeout(() => passive.release(), waitMs)
    passive.server.on('connection', (socket) => {
      socket.on('error', () => undefined)
      if (this.socket !== null || plainAddress(socket.remoteAddress) !== peer) {
        socket.destroy()
        return
      }
      this.socket = socket
      this.#releasePort()
      this.#arrival.resolve(socket)
    })
  }

  override close(): void {
    this.#releasePort()
    super.close()
  }

  protected opened(): Promise<Socket> {
    return this.#arrival.promise
  }

  protected notOpened(): FtpError {
    return new FtpError(
      425,
      `the client did not connect to port ${this.#passive.port}; send PASV or EPSV again, and check firewalls`,
    )
  }

  #releasePort(): void {
    clearTimeout(this.#timer)
    this.#passive.release()
  }
}

/** We connect to the client, from the address of its control connection, when there is something to transfer. */
export class ActiveConnection extends DataConnection {
  readonly #target: { host: string; port: number; localAddress: string }

  constructor(target: { host: string; port: number; localAddress: string }) {
    super()
    this.#target = target
  }

  protected opened(): Promise<Socket> {
    const socket = connect(this.#target)
    this.socket = socket
    return new Promise((resolve, reject) => {
      socket.once('connect', () => {
        resolve(socket)
      })
      socket.on('error', (error) => {
        reject(this.notOpened(error))
      })
    })
  }

  protected notOpened(cause?: unknown): FtpError {
    const { host, port } = this.#target
    return new FtpError(425, `port ${port} of ${host} can't be reached; use passive mode (EPSV or PASV)`, {
      cause,
    })
  }
}
