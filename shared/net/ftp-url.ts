import { once } from 'node:events'
import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { Client, type FTPContext } from 'basic-ftp'
import { AddressGuard, AddressRefused, type Address } from './address-guard.ts'
import { errorMessage, toError } from '../contract/errors.ts'
import { answeredInTheClear, connectImplicitTls, ftpTlsOptions } from './ftp-tls.ts'
import {
  failedTry,
  quoteServerText,
  maskUrl,
  pathInUrl,
  type Credentials,
  type OpenOptions,
  type RemoteFile,
  type RemoteTarget,
} from './remote-file.ts'

/**
 * Opens a file over ftp or ftps. Control and data connections go to the checked address: basic-ftp refuses a server that
 * names another one for its data.
 *
 * For ftps the default is implicit TLS on port 990, as in other clients. On port 21, and on a given port where the
 * server answers without TLS, `AUTH TLS` is used instead. Credentials for ftps are never sent without TLS.
 */
export async function openByFtp(target: RemoteTarget, options: OpenOptions): Promise<RemoteFile> {
  const { url, credentials } = target
  const connection = new Connection(options)
  try {
    const host = AddressGuard.lookupHost(url)
    const answers = await connection.orAborted(options.guard.resolve(host))
    await connection.open(url, host, answers)
    const { client } = connection
    await connection.orAborted(
      client.login(credentials?.username ?? 'anonymous', credentials?.password ?? ''),
    )
    await connection.orAborted(client.useDefaultSettings())
    const path = decodeURIComponent(pathInUrl(url).slice(1))
    const expected = await connection.orAborted(client.size(path).catch(nullIfConnected(client)))
    return {
      expected,
      encodings: [],
      body: receiveFile(connection, path, target),
      close: async () => connection.close(),
    }
  } catch (error) {
    connection.close()
    throw toFailedAttempt(error, url, credentials)
  }
}

/** Servers without SIZE answer with an error: null while the connection is open, otherwise the error is thrown. */
const nullIfConnected = (client: Client) => (error: unknown) => {
  if (client.closed) throw toError(error)
  return null
}

function toFailedAttempt(error: unknown, url: URL, credentials: Credentials | null): unknown {
  if (error instanceof AddressRefused || !(error instanceof Error) || error.name === 'AbortError')
    return error
  return failedTry(
    `${maskUrl(url)} couldn't be downloaded: ${quoteServerText(errorMessage(error), credentials)}`,
    error,
  )
}

/** The bytes of the file. It ends without an error only when the server has confirmed the transfer. */
async function* receiveFile(
  connection: Connection,
  path: string,
  { credentials }: RemoteTarget,
): AsyncGenerator<Buffer> {
  const body = new PassThrough()
  // The transfer may fail before the body is read. Without a listener that error would end the process.
  body.on('error', () => undefined)
  const transfer = connection.orAborted(connection.client.downloadTo(body, path))
  transfer.catch((error: unknown) => body.destroy(toError(error)))
  const pieces: AsyncIterable<Buffer> = body
  try {
    yield* pieces
    // The stream ends without an error also when the transfer broke off; only this promise tells the difference.
    await transfer
  } catch (error) {
    throw new Error(quoteServerText(errorMessage(error), credentials), { cause: error })
  }
}

/** basic-ftp's client, whose pending promises and connections all end with it. */
class Connection {
  client: Client
  readonly #options: OpenOptions
  readonly #sockets = new Set<Socket>()

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
        this.#replaceClient()
      }
    }
    throw new Error(`${host} has no address`)
  }

  async #openAt(address: string, url: URL, host: string): Promise<void> {
    if (url.protocol === 'ftp:') return this.#connect(address, portOrDefault(url, 21))
    if (url.port === '21') return this.#connectExplicit(address, 21, host)
    try {
      await this.orAborted(
        connectImplicitTls(this.client, { host, address, port: portOrDefault(url, 990) }),
        this.#options.bounds.connectMs,
      )
    } catch (error) {
      if (url.port === '' || !answeredInTheClear(error)) throw error
      this.#replaceClient()
      return this.#connectExplicit(address, portOrDefault(url, 990), host)
    }
  }

  async #connect(address: string, port: number): Promise<void> {
    await this.orAborted(this.client.connect(address, port), this.#options.bounds.connectMs)
  }

  async #connectExplicit(address: string, port: number, host: string): Promise<void> {
    await this.#connect(address, port)
    await this.orAborted(this.client.useTLS(ftpTlsOptions({ host, address })))
  }

  /**
   * Resolves as `work` does, or throws when the attempt is aborted: basic-ftp's promises don't all end at a close.
   */
  async orAborted<T>(work: Promise<T>, timeoutMs?: number): Promise<T> {
    const ended = new AbortController()
    const timeouts = timeoutMs === undefined ? [] : [AbortSignal.timeout(timeoutMs)]
    const signal = AbortSignal.any([this.#options.signal, ...timeouts])
    try {
      signal.throwIfAborted()
      const aborted = once(signal, 'abort', { signal: ended.signal }).then(() => {
        this.#options.signal.throwIfAborted()
        throw new Error(`no answer within ${(timeoutMs ?? 0) / 1000} s`)
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

  #replaceClient(): void {
    this.close()
    this.client = this.#newClient()
  }

  #newClient(): Client {
    const client = new Client(this.#options.bounds.silenceMs)
    this.#watch(client.ftp)
    return client
  }

  /** Registers each socket that the client makes, because the client closes none for data that isn't connected yet. */
  #watch(ftp: FTPContext): void {
    const newSocket = ftp._newSocket.bind(ftp)
    ftp._newSocket = () => {
      const socket = newSocket()
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
      return socket
    }
  }
}

const portOrDefault = (url: URL, defaultPort: number): number =>
  url.port === '' ? defaultPort : Number(url.port)
