import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket, type SecureContextOptions } from 'node:tls'
import type { Test } from 'tap'
import { listeningPort } from './listening-port.ts'

/** An FTP server of one file that a test tells how to misbehave. */
export interface FtpScript {
  content: Buffer
  /** Replies in place of the usual ones; null sends none. */
  replies?: Record<string, string | null>
  /** Bytes of the file that it sends, all by default. */
  sends?: number
  /** The reply after the data; null sends none. */
  end?: string | null
  /** The data connection ends with a reset. */
  breaksOff?: boolean
  /** The control connection goes together with the data. */
  closes?: boolean
  tls?: { mode: 'implicit' | 'explicit'; context: SecureContextOptions }
}

interface ScriptedFtpServer {
  port: number
  /** Commands of all sessions, in order. */
  commands: string[]
}

export async function startFtpServer(t: Test, script: FtpScript): Promise<ScriptedFtpServer> {
  const commands: string[] = []
  const open = new Set<Socket>()
  const accept = (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    void new Session(socket, script, commands).serve()
  }
  const server: Server =
    script.tls?.mode === 'implicit'
      ? createTlsServer(script.tls.context, accept).on('tlsClientError', () => undefined)
      : createServer(accept)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return { port: listeningPort(server), commands }
}

class Session {
  #control: Socket
  readonly #script: FtpScript
  readonly #commands: string[]
  #data: Promise<Socket> | null = null
  #isProtected = false

  constructor(control: Socket, script: FtpScript, commands: string[]) {
    this.#control = control
    this.#script = script
    this.#commands = commands
  }

  async serve(): Promise<void> {
    this.#say('220 ready')
    this.#listen()
  }

  #listen(): void {
    let rest = ''
    this.#control.on('data', (piece) => {
      const lines = (rest + piece.toString()).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) void this.#obey(line).catch(() => undefined)
    })
  }

  #say(reply: string | null): void {
    if (reply !== null && !this.#control.destroyed) this.#control.write(`${reply}\r\n`)
  }

  async #obey(line: string): Promise<void> {
    this.#commands.push(line)
    const [verb = ''] = line.toUpperCase().split(' ')
    const scripted = this.#script.replies?.[verb]
    if (scripted !== undefined) {
      this.#say(scripted)
      return
    }
    switch (verb) {
      case 'AUTH': {
        this.#secure()
        return
      }
      case 'USER': {
        this.#say('331 password')
        return
      }
      case 'PASS': {
        this.#say('230 welcome')
        return
      }
      case 'SIZE': {
        this.#say(`213 ${this.#script.content.length}`)
        return
      }
      case 'PROT':
        this.#isProtected = line.endsWith('P')
        {
          this.#say('200 ok')
          return
        }
      case 'EPSV': {
        this.#say(`229 ok (|||${await this.#openData()}|)`)
        return
      }
      case 'PASV': {
        const port = await this.#openData()
        this.#say(`227 ok (127,0,0,1,${port >> 8},${port & 255})`)
        return
      }
      case 'RETR':
        return this.#send()
      default: {
        this.#say('200 ok')
        return
      }
    }
  }

  #secure(): void {
    const { tls } = this.#script
    if (tls?.mode !== 'explicit') {
      this.#say('502 no TLS')
      return
    }
    this.#say('234 go on')
    this.#control.removeAllListeners('data')
    this.#control = new TLSSocket(this.#control, { isServer: true, ...tls.context })
    this.#control.on('error', () => undefined)
    this.#listen()
  }

  async #openData(): Promise<number> {
    const server = createServer()
    this.#data = new Promise((resolve) => {
      server.once('connection', (socket) => {
        server.close()
        socket.on('error', () => undefined)
        if (!this.#isProtected) {
          resolve(socket)
          return
        }
        const secured = new TLSSocket(socket, { isServer: true, ...this.#script.tls?.context })
        secured.on('error', () => undefined)
        resolve(secured)
      })
    })
    this.#control.once('close', () => server.close())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return listeningPort(server)
  }

  async #send(): Promise<void> {
    const {
      content,
      sends = content.length,
      breaksOff = false,
      closes = false,
      end = '226 done',
    } = this.#script
    const data = await this.#data!
    this.#say('150 here it comes')
    data.write(content.subarray(0, sends), () => {
      if (breaksOff) data.resetAndDestroy()
      else data.end()
      this.#say(end)
      if (closes) this.#control.destroy()
    })
  }
}
