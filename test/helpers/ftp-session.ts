import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import * as tls from 'node:tls'
import { bootstrapKey, until } from './service.ts'

/** An FTP client that does one step at a time, so that a test can stop between two of them; in the clear or in TLS. */
export class FtpSession {
  control: Socket
  isPrivate = false
  /** Whether data connections resume the TLS session of the control connection. */
  resumes = true
  #text = ''

  /** Logs in; throws the reply when that is refused. */
  static async open(url: string, key = bootstrapKey): Promise<FtpSession> {
    const session = await FtpSession.connect(url)
    const answer = await session.login(key)
    if (answer.startsWith('230')) return session
    session.close()
    throw new Error(answer)
  }

  /** Logs in after AUTH TLS, with data connections in TLS. */
  static async openPrivate(url: string): Promise<FtpSession> {
    const session = await FtpSession.connect(url)
    await session.command('AUTH TLS')
    await session.startTls()
    const answer = await session.login()
    if (!answer.startsWith('230')) throw new Error(answer)
    await session.command('PROT P')
    session.isPrivate = true
    return session
  }

  /** Reads the greeting. An `ftps:` URL begins with the handshake. */
  static async connect(url: string, from?: string): Promise<FtpSession> {
    const session = new FtpSession(url, from)
    if (url.startsWith('ftps:')) {
      await session.startTls()
      session.isPrivate = true
    }
    await session.reply()
    return session
  }

  /** Doesn't wait for the greeting, which a test may read itself. */
  constructor(url: string, from?: string) {
    const { hostname, port } = new URL(url)
    const host = hostname.replace(/[[\]]/g, '')
    this.control = connect({
      port: Number(port),
      host,
      ...(from === undefined ? {} : { localAddress: from }),
    })
    this.#listen()
  }

  async startTls(options: tls.ConnectionOptions = {}): Promise<void> {
    this.control.removeAllListeners('data')
    const secure = tls.connect({ socket: this.control, rejectUnauthorized: false, ...options })
    this.control = secure
    this.#listen()
    await once(secure, 'secureConnect')
  }

  #listen(): void {
    this.control.setEncoding('utf8').on('data', (text: string) => (this.#text += text))
    this.control.on('error', () => undefined)
  }

  async login(key = bootstrapKey): Promise<string> {
    await this.command('USER api')
    return this.command(`PASS ${key}`)
  }

  /** Resolves to what was still said when the server has ended the connection. */
  async ended(): Promise<string> {
    if (!this.control.closed) await once(this.control, 'close')
    return this.#text
  }

  /** The next reply, with all of its lines. */
  async reply(): Promise<string> {
    const whole = /^(?:\d{3}-[\s\S]*?\r\n)?\d{3} .*\r\n/
    await until(
      'a reply',
      async () => whole.test(this.#text),
      (isThere) => isThere,
    )
    const [text = ''] = whole.exec(this.#text) ?? []
    this.#text = this.#text.slice(text.length)
    return text.trimEnd()
  }

  write(bytes: string | Uint8Array): void {
    this.control.write(bytes)
  }

  command(line: string): Promise<string> {
    this.write(`${line}\r\n`)
    return this.reply()
  }

  async data(): Promise<Socket> {
    const answer = await this.command('EPSV')
    const [, port] = /\|(\d+)\|/.exec(answer) ?? []
    const socket = connect(Number(port), this.control.remoteAddress)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }

  /** The data connection as the transfer wants it, after reply 150. */
  secured(data: Socket, tlsSession = this.tlsSession()): Socket {
    if (!this.isPrivate) return data
    const secure = tls.connect({
      socket: data,
      rejectUnauthorized: false,
      ...(this.resumes ? { session: tlsSession } : {}),
    })
    secure.on('error', () => undefined)
    return secure
  }

  /** The session of the control connection, which a data connection resumes. */
  tlsSession(): Buffer | undefined {
    return this.control instanceof tls.TLSSocket ? this.control.getSession() : undefined
  }

  /** Begins an upload, after REST if that is given, and resolves when the server waits for its data. */
  async beginUpload(line: string, rest?: number): Promise<Socket> {
    const data = await this.data()
    if (rest !== undefined) await this.command(`REST ${rest}`)
    const answer = await this.command(line)
    if (!answer.startsWith('150')) {
      data.destroy()
      throw new Error(answer)
    }
    return this.secured(data)
  }

  /** Uploads the whole and returns the last reply. */
  async upload(line: string, content: string, rest?: number): Promise<string> {
    const data = await this.beginUpload(line, rest)
    data.end(content)
    return this.reply()
  }

  async download(line: string): Promise<{ text: string; last: string }> {
    const plain = await this.data()
    // A connection that ends before the handshake is still the plain one.
    const first = await this.command(line)
    if (!first.startsWith('150')) {
      plain.destroy()
      return { text: '', last: first }
    }
    const data = this.secured(plain)
    let text = ''
    data.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    if (!data.closed) await once(data, 'close')
    return { text, last: await this.reply() }
  }

  close(): void {
    this.control.destroy()
  }
}
