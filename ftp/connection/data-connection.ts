import { connect, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import { FtpError } from '../ftp-error.ts'
import type { PassivePort } from './passive-ports.ts'
import { closeGently, handshake, plainAddress, wrapInTls } from './sockets.ts'

interface Timeouts {
  signal: AbortSignal
  timeoutMs: number
}

/** The connection that a session's next transfer goes over: promised by PASV or PORT, open when the transfer begins. */
export abstract class DataConnection {
  protected socket: Socket | null = null

  /** Throws 425 when it doesn't come about in time, and `signal`'s reason when that is aborted. */
  async open({ signal, timeoutMs }: Timeouts): Promise<Socket> {
    signal.throwIfAborted()
    const broken = Promise.withResolvers<never>()
    const onAbort = () => {
      broken.reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      broken.reject(noDataConnection())
    }, timeoutMs)
    signal.addEventListener('abort', onAbort)
    try {
      return await Promise.race([this.opening(), broken.promise])
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Goes on in TLS; the client begins the handshake when it likes, many only after reply 150. */
  async secure(
    context: SecureContext,
    { mustResume, ...timeouts }: Timeouts & { mustResume: boolean },
  ): Promise<Socket> {
    const secure = wrapInTls(this.socket!, context)
    this.socket = secure
    if (!(await handshake(secure, timeouts))) {
      timeouts.signal.throwIfAborted()
      throw new FtpError(425, 'the data connection was not secured')
    }
    if (mustResume && !secure.isSessionReused())
      throw new FtpError(
        522,
        'the data connection must resume the TLS session of the control connection: use a client that does so',
      )
    return secure
  }

  /** Safe at any time, also again. */
  close(): void {
    if (this.socket !== null) closeGently(this.socket)
  }

  protected abstract opening(): Promise<Socket>
}

/** The client dials. Whoever else does is shown out, and the client can still come. */
export class PassiveConnection extends DataConnection {
  readonly #passive: PassivePort
  readonly #arrival = Promise.withResolvers<Socket>()
  readonly #timer: NodeJS.Timeout

  /** The port is given back when the client has not come for `keepMs`. */
  constructor(options: { passive: PassivePort; peer: string; keepMs: number }) {
    super()
    const { passive, peer, keepMs } = options
    this.#passive = passive
    this.#timer = setTimeout(() => passive.release(), keepMs)
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

  protected opening(): Promise<Socket> {
    return this.#arrival.promise
  }

  #releasePort(): void {
    clearTimeout(this.#timer)
    this.#passive.release()
  }
}

/** We dial, from the address that the client knows us by, and not before there is something to transfer. */
export class ActiveConnection extends DataConnection {
  readonly #target: { host: string; port: number; localAddress: string }

  constructor(target: { host: string; port: number; localAddress: string }) {
    super()
    this.#target = target
  }

  protected opening(): Promise<Socket> {
    const socket = connect(this.#target)
    this.socket = socket
    return new Promise((resolve, reject) => {
      socket.once('connect', () => {
        resolve(socket)
      })
      socket.on('error', (error) => {
        reject(noDataConnection(error))
      })
    })
  }
}

const noDataConnection = (cause?: unknown) => new FtpError(425, 'no data connection was opened', { cause })
