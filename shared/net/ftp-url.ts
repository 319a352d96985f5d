import { once } from 'node:events'
import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { Client, type FTPContext } from 'basic-ftp'
import { AddressGuard, AddressRefused, type Address } from './address-guard.ts'
import { messageOf } from '../contract/errors.ts'
import { answeredInTheClear, connectImplicitTls, ftpTlsOptions } from './ftp-tls.ts'
import {
  failedTry,
  quoted,
  shown,
  type Credentials,
  type OpenOptions,
  type RemoteFile,
  type RemoteTarget,
} from './remote-file.ts'

/**
 * Opens a file over ftp or ftps. Control and data connections go to one address, the one that was checked, whatever
 * the server says where its data are.
 *
 * ftps is TLS from the first byte, on port 990 where none is given, as other clients have it. Port 21, and a server
 * that answers the handshake in the clear, get `AUTH TLS` instead; nothing is sent without TLS either way.
 */
export async function openByFtp(target: RemoteTarget, options: OpenOptions): Promise<RemoteFile> {
  const { url, credentials } = target
  const connection = new Connection(options)
  try {
    const host = AddressGuard.hostOf(url)
    const answers = await connection.during(options.guard.resolve(host))
    await connection.open(url, host, answers)
    const { client } = connection
    await connection.during(client.login(credentials?.username ?? 'anonymous', credentials?.password ?? ''))
    await connection.during(client.useDefaultSettings())
    const path = decodeURIComponent(url.pathname.slice(1))
    const expected = await connection.during(client.size(path).catch(unlessGone(client)))
    return {
      expected,
      isEncoded: false,
      body: received(connection, path, target),
      close: async () => connection.close(),
    }
  } catch (error) {
    connection.close()
    throw explained(error, url, credentials)
  }
}

/** Not every server knows SIZE. */
const unlessGone = (client: Client) => (error: unknown) => {
  if (client.closed) throw error as Error
  return null
}

function explained(error: unknown, url: URL, credentials: Credentials | null): unknown {
  if (error instanceof AddressRefused || !(error instanceof Error) || error.name === 'AbortError')
    return error
  return failedTry(`${shown(url)} couldn't be downloaded: ${quoted(messageOf(error), credentials)}`, error)
}

/** The file's bytes as they come; it ends only when the server has confirmed the transfer. */
async function* received(
  connection: Connection,
  path: string,
  { credentials }: RemoteTarget,
): AsyncGenerator<Buffer> {
  const body = new PassThrough()
  // It may break off before anybody reads: the reader is told, and nobody else.
  body.on('error', () => undefined)
  const transfer = connection.during(connection.client.downloadTo(body, path))
  transfer.catch((error: unknown) => body.destroy(error as Error))
  try {
    yield* body as AsyncIterable<Buffer>
    // The stream ends in the usual way also when the transfer broke off; only this says which.
    await transfer
  } catch (error) {
    throw new Error(quoted(messageOf(error), credentials), { cause: error })
  }
}

/** basic-ftp's client with its connections held to one address, and ended with everything that waits for them. */
class Connection {
  client: Client
  readonly #options: OpenOptions
  readonly #sockets = new Set<Socket>()
  #address: string | null = null

  constructor(options: OpenOptions) {
    this.#options = options
    this.client = this.#newClient()
  }

  /** Connects to the first of the addresses that answers. */
  async open(url: URL, host: string, answers: readonly Address[]): Promise<void> {
    for (const [i, { address }] of answers.entries()) {
      try {
        await this.#openAt(address, url, host)
        return
      } catch (error) {
        if (this.#options.signal.aborted || i === answers.length - 1) throw error
        this.#renew()
      }
    }
    throw new Error(`${host} has no address`)
  }

  async #openAt(address: string, url: URL, host: string): Promise<void> {
    this.#address = address
    if (url.protocol === 'ftp:') return this.#connect(address, portOf(url, 21))
    if (url.port === '21') return this.#connectExplicit(address, 21, host)
    try {
      await this.during(
        connectImplicitTls(this.client, { host, address, port: portOf(url, 990) }),
        this.#options.bounds.connectMs,
      )
    } catch (error) {
      if (url.port === '' || !answeredInTheClear(error)) throw error
      this.#renew()
      return this.#connectExplicit(address, portOf(url, 990), host)
    }
  }

  async #connect(address: string, port: number): Promise<void> {
    await this.during(this.client.connect(address, port), this.#options.bounds.connectMs)
  }

  async #connectExplicit(address: string, port: number, host: string): Promise<void> {
    await this.#connect(address, port)
    await this.during(this.client.useTLS(ftpTlsOptions({ host, address })))
  }

  /** What it resolves to, or why the try is over meanwhile: basic-ftp's promises don't all end when it is closed. */
  async during<T>(work: Promise<T>, limitMs?: number): Promise<T> {
    const ended = new AbortController()
    const limit = limitMs === undefined ? [] : [AbortSignal.timeout(limitMs)]
    const signal = AbortSignal.any([this.#options.signal, ...limit])
    try {
      signal.throwIfAborted()
      const aborted = once(signal, 'abort', { signal: ended.signal }).then(() => {
        throw this.#options.signal.aborted
          ? (this.#options.signal.reason as Error)
          : new Error(`no answer within ${limitMs! / 1000} s`)
      })
      return await Promise.race([work, aborted])
    } finally {
      ended.abort()
      work.catch(() => undefined)
    }
  }

  close(): void {
    this.client.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #renew(): void {
    this.close()
    this.client = this.#newClient()
  }

  #newClient(): Client {
    const client = new Client(this.#options.bounds.silenceMs)
    this.#watch(client.ftp)
    return client
  }

  /** Each plain socket that the client makes, for control or data, is known here and looked at when it is connected. */
  #watch(ftp: FTPContext): void {
    const newSocket = ftp._newSocket.bind(ftp)
    ftp._newSocket = () => {
      const socket = newSocket()
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
      socket.once('connect', () => {
        const problem = this.#problemOf(socket.remoteAddress)
        if (problem !== null) socket.destroy(problem)
      })
      return socket
    }
  }

  #problemOf(remote: string | undefined): Error | null {
    const isPinned = AddressGuard.literalOf(remote ?? '') === AddressGuard.literalOf(this.#address!)
    return isPinned ? null : new AddressRefused(`a connection went to ${remote ?? 'an unknown address'}`)
  }
}

const portOf = (url: URL, standard: number): number => (url.port === '' ? standard : Number(url.port))
