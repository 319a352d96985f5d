import { connect, createServer, type Server, type Socket } from 'node:net'
import { BSON, type Document } from 'mongodb'
import { listeningPort } from './listening-port.ts'

/**
 * A proxy between a MongoDB client and its server that recognizes where a command begins. It can stop a client before
 * its n-th command, or cut the connection after the server has run it. Heartbeats and endSessions don't count.
 */
export class CommandGate {
  readonly #server: Server
  readonly #serverUri: string
  readonly #sockets = new Set<Socket>()
  #names: string[] = []
  #stop: Stop | null = null
  /** Sends the commands that have been waiting since the stop, in order. */
  #waiting: (() => void)[] = []
  /** The request of which the server's reply is not passed on. */
  #cutRequest: { connection: object; id: number } | null = null

  readonly #onCommand: ((command: Document) => void) | undefined

  private constructor(server: Server, serverUri: string, onCommand?: (command: Document) => void) {
    this.#server = server
    this.#serverUri = serverUri
    this.#onCommand = onCommand
  }

  /**
   * Opens a gate to one server. `onCommand` is told the body of each command, without the documents that follow it.
   */
  static async open(serverUri: string, onCommand?: (command: Document) => void): Promise<CommandGate> {
    const { hostname, port } = new URL(serverUri)
    const server = createServer()
    const gate = new CommandGate(server, serverUri, onCommand)
    server.on('connection', (client) => gate.#join(client, connect(Number(port), hostname)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return gate
  }

  /** For clients whose commands go through the gate. */
  get uri(): string {
    const uri = new URL(this.#serverUri)
    uri.host = `127.0.0.1:${listeningPort(this.#server)}`
    uri.search = '?directConnection=true'
    return uri.href
  }

  /** The names of the commands since `watch`. */
  get commands(): readonly string[] {
    return this.#names
  }

  /**
   * Counts commands from here on. At the n-th one, or the first that `at` accepts, it resolves. `hold` then keeps
   * that command and all later ones from the server until `release`; `cut` lets the server run it and closes the
   * connection instead of replying.
   */
  watch(at: number | ((command: Document) => boolean) | null, how: 'hold' | 'cut' = 'hold'): Promise<void> {
    this.#names = []
    this.#stop = null
    if (at === null) return Promise.resolve()
    return new Promise((reached) => (this.#stop = { at, how, reached, isReached: false }))
  }

  release(): void {
    this.#stop = null
    const waiting = this.#waiting
    this.#waiting = []
    for (const send of waiting) send()
  }

  async close(): Promise<void> {
    this.release()
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #join(client: Socket, server: Socket): void {
    const connection = {}
    const end = () => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        end()
      })
    }
    const toServer = inMessages((message) => {
      const send = () => void (server.destroyed || server.write(message))
      if (this.#mustWait(connection, message)) this.#waiting.push(send)
      else send()
    })
    const toClient = inMessages((message) => {
      const cut = this.#cutRequest
      if (cut?.connection === connection && message.readInt32LE(8) === cut.id) {
        this.#cutRequest = null
        end()
      } else if (!client.destroyed) client.write(message)
    })
    client.on('data', toServer)
    server.on('data', toClient)
  }

  #mustWait(connection: object, message: Buffer): boolean {
    const name = commandName(message)
    if (name === null || silent.has(name)) return false
    this.#names.push(name)
    this.#onCommand?.(bodyOf(message))
    const stop = this.#stop
    if (stop === null) return false
    const isAt = () =>
      typeof stop.at === 'number' ? this.#names.length >= stop.at : stop.at(bodyOf(message))
    if (!stop.isReached && isAt()) {
      stop.isReached = true
      if (stop.how === 'cut') {
        this.#cutRequest = { connection, id: message.readInt32LE(4) }
        this.#stop = null
      }
      stop.reached()
    }
    return stop.how === 'hold' && stop.isReached
  }
}

interface Stop {
  at: number | ((command: Document) => boolean)
  how: 'hold' | 'cut'
  reached: () => void
  isReached: boolean
}

const silent = new Set(['hello', 'ismaster', 'isMaster', 'ping', 'endSessions', 'saslStart', 'saslContinue'])

const opMsg = 2013

/** The first key of an OP_MSG's body, which is its first section. Null for any other message. */
function commandName(message: Buffer): string | null {
  if (message.readInt32LE(12) !== opMsg) return null
  const firstKey = 16 + 4 + 1 + 4 + 1
  return message.toString('utf8', firstKey, message.indexOf(0, firstKey))
}

/** The body begins after the header, the flags and the kind of the section. */
function bodyOf(message: Buffer): Document {
  const start = 16 + 4 + 1
  return BSON.deserialize(message.subarray(start, start + message.readInt32LE(start)))
}

/** Passes on what a socket sends, message by message; each message begins with its length. */
function inMessages(onMessage: (message: Buffer) => void): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (bytes) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    while (rest.length >= 16 && rest.length >= rest.readInt32LE(0)) {
      const length = rest.readInt32LE(0)
      onMessage(rest.subarray(0, length))
      rest = rest.subarray(length)
    }
  }
}
