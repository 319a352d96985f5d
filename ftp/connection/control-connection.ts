import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { CommandLines, parseCommand, type Command } from './command-lines.ts'
import type { SessionTls } from './session-tls.ts'
import { closeGently, completeHandshake, peekTlsRecord, plainAddress } from './sockets.ts'
import { WaitingCommands } from './waiting-commands.ts'

export interface ControlHandler {
  /** Called as soon as a command arrives, while others may still run. True when nothing is left to do for it. */
  onArrival(command: Command): boolean
  /** Runs the commands one after the other. */
  onCommand(command: Command): Promise<unknown>
  onMalformedLine(reason: string): Promise<unknown>
  onOverlongLine(): void
  /** The queue of waiting commands is full. */
  onFlood(): void
  /** The client has ended the connection, or it is gone. */
  onHangUp(): void
}

/** Bytes of replies that a client may leave unread. Above them a STAT during a transfer isn't answered at once. */
const maxUnreadBytes = 64 * 1024

/**
 * A session's control connection, unencrypted or in TLS. ftp-srv uses it as its socket for replies and for the end,
 * and receives one command at a time. Input is read while a command runs, so that ABOR and the end of the connection
 * are noticed.
 */
export class ControlConnection extends EventEmitter {
  readonly remoteAddress: string
  readonly localAddress: string
  readonly localPort: number
  #socket: Socket
  #tls: SessionTls | null = null
  readonly #lines = new CommandLines()
  #handler: ControlHandler | null = null
  readonly #waiting = new WaitingCommands()
  #isRunning = false
  #isDiscarding = false
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

  /** Null while the connection is unencrypted. */
  get tls(): SessionTls | null {
    return this.#tls
  }

  get writable(): boolean {
    return !this.#isEnded && this.#socket.writable
  }

  get destroyed(): boolean {
    return this.#isEnded || this.#socket.destroyed
  }

  /** Whether the client leaves its replies unread. */
  get isUnread(): boolean {
    return this.#socket.writableLength > maxUnreadBytes
  }

  /** ftp-srv calls this for its log. */
  address(): { port: number } {
    return { port: this.localPort }
  }

  write(text: string, encoding?: BufferEncoding, onWritten?: (error?: Error | null) => void): void {
    this.#socket.write(text, encoding, onWritten)
  }

  /** Ends the connection; the client can still read the last reply. */
  destroy(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#handler?.onHangUp()
    closeGently(this.#socket)
  }

  listen(handler: ControlHandler): void {
    this.#handler = handler
    this.#socket.on('data', this.#onData)
  }

  /** Discards what arrives from now on, until `resumeInput` or `startTls`. */
  discardInput(): void {
    this.#isDiscarding = true
    this.#lines.clear()
  }

  resumeInput(): void {
    this.#isDiscarding = false
  }

  /**
   * Upgrades to TLS after a last unencrypted reply, and resolves to whether the handshake succeeded. Unencrypted input
   * that is still unread is discarded: an attacker on the way could have injected it as commands.
   */
  async startTls(
    tlsFor: (hello: Buffer) => SessionTls,
    options: { lastReply?: string; timeoutMs: number },
  ): Promise<boolean> {
    const plain = this.#socket
    this.discardInput()
    plain.off('data', this.#onData)
    while (plain.read() !== null);
    if (options.lastReply !== undefined) plain.write(options.lastReply)
    const hello = await peekTlsRecord(plain, options.timeoutMs)
    if (hello === null) return false
    this.#tls = tlsFor(hello)
    const secure = this.#tls.wrap(plain)
    this.#socket = secure
    this.#attach(secure)
    if (!(await completeHandshake(secure, options))) return false
    this.#isDiscarding = false
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
    const handler = this.#handler
    if (handler === null || this.#isDiscarding || this.#isEnded) return
    const lines = this.#lines.append(bytes)
    if (lines === null) {
      this.discardInput()
      handler.onOverlongLine()
      return
    }
    for (const line of lines) {
      if (this.#isDiscarding) return
      this.#enqueue(handler, line)
    }
  }

  #enqueue(handler: ControlHandler, line: Buffer): void {
    const command = parseCommand(line)
    if (typeof command !== 'string' && handler.onArrival(command)) return
    if (this.#waiting.push(line)) void this.#runWaiting(handler)
    else {
      this.discardInput()
      handler.onFlood()
    }
  }

  async #runWaiting(handler: ControlHandler): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    // Yields first, so that all lines of the packet are in the queue before the first command runs.
    await Promise.resolve()
    for (let line = this.#waiting.shift(); line !== null && !this.destroyed; line = this.#waiting.shift()) {
      const command = parseCommand(line)
      await (typeof command === 'string' ? handler.onMalformedLine(command) : handler.onCommand(command))
    }
    this.#isRunning = false
  }
}
