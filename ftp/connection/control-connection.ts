import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { SecureContext, TLSSocket } from 'node:tls'
import { CommandLines, parseCommand, type Command } from './command-lines.ts'
import { closeGently, handshake, plainAddress, wrapInTls } from './sockets.ts'
import { WaitingCommands } from './waiting-commands.ts'

export interface ControlHandler {
  /** At once when the command arrives, while others may still be at work. Returns whether that was all. */
  onArrival(command: Command): boolean
  /** One after the other. */
  onCommand(command: Command): Promise<unknown>
  /** What came is no command. */
  onNonsense(reason: string): Promise<unknown>
  onOverlongLine(): void
  /** More commands came than may wait. */
  onFlood(): void
  /** The other side has ended or is gone. */
  onHangUp(): void
}

/** Bytes of replies that the client hasn't read; above that, nothing is answered before its turn. */
const maxUnreadBytes = 64 * 1024

/**
 * A session's control connection, plain or in TLS. To ftp-srv it is the socket: it writes its replies here and hears
 * of the end, and gets one command after the other from us. Bytes are read on whatever is at work, so that ABOR and
 * the end of the connection are seen.
 */
export class ControlConnection extends EventEmitter {
  readonly remoteAddress: string
  readonly localAddress: string
  readonly localPort: number
  #socket: Socket
  #secureContext: SecureContext | null = null
  readonly #lines = new CommandLines()
  #handler: ControlHandler | null = null
  readonly #waiting = new WaitingCommands()
  #isWorking = false
  #isDeaf = false
  #isEnded = false

  constructor(socket: Socket) {
    super()
    this.remoteAddress = plainAddress(socket.remoteAddress)
    this.localAddress = plainAddress(socket.localAddress)
    this.localPort = socket.localPort ?? 0
    this.#socket = socket
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    this.#attach(socket)
  }

  /** The certificate that the connection is secured with; null in the clear. */
  get secureContext(): SecureContext | null {
    return this.#secureContext
  }

  get writable(): boolean {
    return !this.#isEnded && this.#socket.writable
  }

  get destroyed(): boolean {
    return this.#isEnded || this.#socket.destroyed
  }

  /** Whether the client doesn't read what it is told. */
  get isUnread(): boolean {
    return this.#socket.writableLength > maxUnreadBytes
  }

  /** ftp-srv wants it for its log. */
  address(): { port: number } {
    return { port: this.localPort }
  }

  write(text: string, encoding?: BufferEncoding, onWritten?: (error?: Error | null) => void): void {
    this.#socket.write(text, encoding, onWritten)
  }

  /** Ends it in a way that lets the client read the last reply. */
  destroy(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#handler?.onHangUp()
    closeGently(this.#socket)
  }

  /** Begins to read commands. */
  listen(handler: ControlHandler): void {
    this.#handler = handler
    this.#socket.on('data', this.#onData)
  }

  /** What arrives from now on is thrown away, unread, until `heed` or `secure`. */
  ignore(): void {
    this.#isDeaf = true
    this.#lines.clear()
  }

  heed(): void {
    this.#isDeaf = false
  }

  /**
   * Goes on in TLS after a last reply in the clear. What came in the clear until then is gone: taken for commands
   * inside TLS, it would be what somebody on the way has put there.
   */
  async secure(
    secureContext: SecureContext,
    options: { lastReply?: string; timeoutMs: number },
  ): Promise<boolean> {
    const plain = this.#socket
    this.ignore()
    plain.off('data', this.#onData)
    while (plain.read() !== null);
    if (options.lastReply !== undefined) plain.write(options.lastReply)
    const secure: TLSSocket = wrapInTls(plain, secureContext)
    this.#socket = secure
    this.#secureContext = secureContext
    this.#attach(secure)
    if (!(await handshake(secure, options))) return false
    this.#isDeaf = false
    if (this.#handler !== null) secure.on('data', this.#onData)
    return true
  }

  #attach(socket: Socket): void {
    socket.on('error', () => undefined)
    socket.once('end', () => {
      if (socket === this.#socket) this.#handler?.onHangUp()
    })
    socket.once('close', () => {
      if (socket !== this.#socket) return
      this.#isEnded = true
      this.#handler?.onHangUp()
      this.emit('close')
    })
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#isDeaf || this.#isEnded) return
    const lines = this.#lines.take(bytes)
    if (lines === null) {
      this.ignore()
      this.#handler!.onOverlongLine()
      return
    }
    for (const line of lines) {
      if (this.#isDeaf) return
      this.#arrived(line)
    }
  }

  #arrived(line: Buffer): void {
    const handler = this.#handler!
    const command = parseCommand(line)
    if (typeof command !== 'string' && handler.onArrival(command)) return
    if (this.#waiting.add(line)) void this.#work()
    else {
      this.ignore()
      handler.onFlood()
    }
  }

  async #work(): Promise<void> {
    if (this.#isWorking) return
    this.#isWorking = true
    // Not before all lines of the packet are seen.
    await Promise.resolve()
    for (let line = this.#waiting.take(); line !== null && !this.destroyed; line = this.#waiting.take()) {
      const command = parseCommand(line)
      await (typeof command === 'string'
        ? this.#handler!.onNonsense(command)
        : this.#handler!.onCommand(command))
    }
    this.#isWorking = false
  }
}
