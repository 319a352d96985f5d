import { Agent, request } from 'undici'

/** A refusal by the service: its code and its message. */
export class ApiRefusal extends Error {
  readonly code: string
  readonly status: number

  constructor(code: string, message: string, status: number) {
    super(message)
    this.code = code
    this.status = status
  }
}

/**
 * A client of the API. Each call resolves to the reply's `data`, and throws an ApiRefusal when the service says no, or
 * what the network says when it can't be reached.
 */
export class ApiClient {
  readonly #base: string
  readonly #authorization: string
  // Large inline bodies and slow disks take their time; a service that says nothing for so long is gone.
  readonly #agent = new Agent({ headersTimeout: 300_000, bodyTimeout: 300_000 })

  constructor(url: string, key: string) {
    this.#base = `${url.replace(/\/$/, '')}/svc/api/v2`
    this.#authorization = `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
  }

  get<T>(path: string): Promise<T> {
    return this.#call<T>('GET', path)
  }

  post<T>(path: string, body?: unknown): Promise<T> {
    return this.#call<T>('POST', path, body)
  }

  put<T>(path: string, body: unknown): Promise<T> {
    return this.#call<T>('PUT', path, body)
  }

  async #call<T>(method: 'GET' | 'POST' | 'PUT', path: string, body?: unknown): Promise<T> {
    const response = await request(`${this.#base}${path}`, {
      method,
      dispatcher: this.#agent,
      headers: {
        authorization: this.#authorization,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const envelope = (await response.body.json()) as {
      success: boolean
      data: T
      error_code: string
      error_message: string
    }
    if (!envelope.success)
      throw new ApiRefusal(envelope.error_code, envelope.error_message, response.statusCode)
    return envelope.data
  }

  async close(): Promise<void> {
    await this.#agent.close()
  }
}

/** What an import's view is asked for here. */
export interface ImportView {
  id: number
  state: string
  error_message: string | null
  stats: { number_of_records: number | null; records_imported: number; subscribers: Record<string, number> }
}

export const importEnded = (view: ImportView): boolean =>
  ['finished', 'failed', 'cancelled'].includes(view.state)
