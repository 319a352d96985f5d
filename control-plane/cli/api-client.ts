import { Readable } from 'node:stream'
import { Agent, request, type Dispatcher } from 'undici'
import { errorMessage } from '../../shared/contract/errors.ts'

/** The service refused a request; this has its code and its message. */
export class ApiRefusal extends Error {
  readonly code: string
  readonly status: number

  constructor(code: string, message: string, status: number) {
    super(message)
    this.code = code
    this.status = status
  }
}

/** The service can't be reached, or something else answered in its place. A later try may succeed. */
export class ServiceUnreachable extends Error {}

/** The service sends at least a comment within this time, so a stream without one is dead. */
const streamTimeoutMs = 45_000

/**
 * A client of the API. Each call resolves to the reply's `data`. It throws an ApiRefusal when the service refuses, and
 * a ServiceUnreachable when the service can't be reached.
 */
export class ApiClient {
  readonly #url: string
  readonly #authorization: string | null
  // Large inline bodies and slow disks take time, but a service that sends nothing for 5 minutes is gone.
  readonly #agent = new Agent({ headersTimeout: 300_000, bodyTimeout: 300_000 })

  constructor(url: string, key: string | undefined) {
    this.#url = url.replace(/\/$/, '')
    this.#authorization = key === undefined ? null : `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
  }

  get<T>(path: string): Promise<T> {
    return this.#call<T>('GET', path)
  }

  post<T>(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    return this.#call<T>('POST', path, body, headers)
  }

  async delete(path: string): Promise<void> {
    await this.#call('DELETE', path)
  }

  /** Sends bytes as they are. Without a `Content-Length` among the headers the body may have any length. */
  putBytes<T>(path: string, bytes: Readable, headers: Record<string, string>): Promise<T> {
    return this.#call<T>('PUT', path, bytes, headers)
  }

  /** Yields the pages of a list by token, so that no record is skipped or repeated when others come or go. */
  async *pages<T>(path: string): AsyncGenerator<T[]> {
    for (let token: string | null = ''; token !== null;) {
      const query: string = token === '' ? '' : `&page_token=${encodeURIComponent(token)}`
      const { data, next_page_token }: Envelope<T[]> = await this.#envelope<T[]>(
        await this.#send('GET', `${path}${path.includes('?') ? '&' : '?'}per_page=500${query}`),
      )
      yield data
      token = next_page_token ?? null
    }
  }

  /** Yields all records of a list, page by page. */
  async *list<T>(path: string): AsyncGenerator<T> {
    for (let page = 0, pages = 1; page < pages; page += 1) {
      const { data, num_pages } = await this.#envelope<T[]>(
        await this.#send('GET', `${path}${path.includes('?') ? '&' : '?'}page=${page}`),
      )
      pages = num_pages ?? 1
      yield* data
    }
  }

  /** Resolves to a text as a stream, and its character set. */
  async text(path: string): Promise<{ body: Readable; charset: string }> {
    const response = await this.#send('GET', path)
    if (hasType(response, 'application/json')) await this.#envelope(response)
    const [, charset = 'utf-8'] = /charset=([\w-]+)/.exec(String(response.headers['content-type'])) ?? []
    return { body: response.body, charset }
  }

  /**
   * Yields the data of server-sent events as parsed JSON, until the service ends the stream. `onOpen` is called when
   * the service has replied with a stream.
   */
  async *events<T>(path: string, signal: AbortSignal, onOpen: () => void): AsyncGenerator<T> {
    const response = await this.#send('GET', path, undefined, { accept: 'text/event-stream' }, signal)
    if (!hasType(response, 'text/event-stream')) await this.#envelope(response)
    onOpen()
    try {
      for await (const data of readEvents(response.body)) yield JSON.parse(data) as T
    } catch (error) {
      if (signal.aborted) throw error
      throw new ServiceUnreachable(`the connection to ${this.#url} broke off: ${errorMessage(error)}`, {
        cause: error,
      })
    }
  }

  /** Resolves to the FTP address that the service tells people; null where it knows none, or another program answers. */
  async ftpUrl(): Promise<string | null> {
    try {
      const headers = { accept: 'application/json' }
      const { body } = await request(`${this.#url}/`, { dispatcher: this.#agent, headers })
      const { ftp } = (await body.json()) as { ftp?: unknown }
      return typeof ftp === 'string' ? ftp : null
    } catch {
      return null
    }
  }

  async #call<T>(
    method: Method,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<T> {
    return (await this.#envelope<T>(await this.#send(method, path, body, headers))).data
  }

  async #send(
    method: Method,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    try {
      return await request(`${this.#url}/svc/api/v2${path}`, {
        method,
        dispatcher: this.#agent,
        headers: {
          ...(this.#authorization === null ? {} : { authorization: this.#authorization }),
          ...(body === undefined
            ? {}
            : { 'content-type': body instanceof Readable ? 'application/octet-stream' : 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: body instanceof Readable ? body : JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal, bodyTimeout: streamTimeoutMs }),
      })
    } catch (error) {
      if (signal?.aborted === true) throw error
      throw new ServiceUnreachable(`can't reach the service at ${this.#url}: ${errorMessage(error)}`, {
        cause: error,
      })
    }
  }

  async #envelope<T>(response: Dispatcher.ResponseData): Promise<Envelope<T>> {
    const text = await response.body.text().catch((error: unknown) => {
      throw new ServiceUnreachable(`the answer of ${this.#url} broke off: ${errorMessage(error)}`)
    })
    let envelope: Envelope<T> | null = null
    try {
      envelope = JSON.parse(text) as Envelope<T>
    } catch {
      // What isn't JSON is refused below.
    }
    if (typeof envelope?.success !== 'boolean')
      throw new ServiceUnreachable(
        `${this.#url} answered with status ${response.statusCode}, but not with a reply of Rollcall's API`,
      )
    if (!envelope.success)
      throw new ApiRefusal(envelope.error_code, envelope.error_message, response.statusCode)
    return envelope
  }

  /** Cuts the connections, also those with calls in flight. */
  async destroy(): Promise<void> {
    await this.#agent.destroy()
  }
}

/**
 * Yields the data of server-sent events (HTML standard). Names, ids and comments are skipped, because this service's
 * client doesn't need them.
 */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  let data: string[] = []
  for await (const piece of body) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice('data:'.length).replace(/^ /, ''))
      else if (line === '' && data.length > 0) {
        yield data.join('\n')
        data = []
      }
    }
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

interface Envelope<T> {
  success: boolean
  data: T
  error_code: string
  error_message: string
  num_pages?: number | null
  next_page_token?: string | null
}

const hasType = ({ headers }: Dispatcher.ResponseData, type: string): boolean =>
  String(headers['content-type'] ?? '').startsWith(type)
