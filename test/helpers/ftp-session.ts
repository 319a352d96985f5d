import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { bootstrapKey, until } from './service.ts'

/** An FTP client that does one step at a time, so that a test can stop between two of them. */
export class FtpSession {
  readonly control: Socket
  #text = ''

  static async open(url: string, key = bootstrapKey): Promise<FtpSession> {
    const session = new FtpSession(url)
    await session.reply()
    await session.command('USER api')
    const answer = await session.command(`PASS ${key}`)
    if (answer.startsWith('230')) return session
    session.close()
    throw new Error(answer)
  }

  private constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.control = connect(Number(port), hostname)
    this.control.setEncoding('utf8').on('data', (text: string) => (this.#text += text))
    this.control.on('error', () => undefined)
  }

  /** The next reply, with all of its lines. */
  async reply(): Promise<string> {
    const whole = /^(?:\d{3}-[\s\S]*?\r\n)?\d{3} .*\r\n/
    await until(
      'a reply',
      async () => whole.test(this.#text),
      (isThere) => isThere,
    )
    const [text] = whole.exec(this.#text)!
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
    const socket = connect(Number(/\|(\d+)\|/.exec(answer)![1]), this.control.remoteAddress)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }

  /** Begins an upload, after REST if that is given, and resolves when the server waits for its data. */
  async beginUpload(line: string, rest?: number): Promise<Socket> {
    const data = await this.data()
    if (rest !== undefined) await this.command(`REST ${rest}`)
    const answer = await this.command(line)
    if (!answer.startsWith('150')) throw new Error(answer)
    return data
  }

  /** Uploads the whole and returns the last reply. */
  async upload(line: string, content: string, rest?: number): Promise<string> {
    const data = await this.beginUpload(line, rest)
    data.end(content)
    return this.reply()
  }

  async download(line: string): Promise<{ text: string; last: string }> {
    const data = await this.data()
    let text = ''
    data.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    const closed = once(data, 'close')
    const first = await this.command(line)
    if (!first.startsWith('150')) {
      data.destroy()
      return { text: '', last: first }
    }
    await closed
    return { text, last: await this.reply() }
  }

  close(): void {
    this.control.destroy()
  }
}
