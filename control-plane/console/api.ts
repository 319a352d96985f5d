import { useEffect } from 'preact/hooks'
import { forgetKey, session } from './session.ts'
import { createStore, usePageStore } from './store.ts'

/** Calls of the API, with the key that was entered. No cookie and no password of the browser is sent. */

const base = '/svc/api/v2'
const retryMs = 2_000

/** Whether the last call came through; the banner follows it. */
export const connection = createStore({ isLost: false })

/** What the API says against a request. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  /** Seconds to wait, of a 429. */
  readonly retryAfter: number | null
  constructor(
    { status, headers }: Response,
    code = 'internal_error',
    message = `the service replied with the status ${status}`,
  ) {
    super(message)
    this.status = status
    this.code = code
    this.retryAfter = headers.has('retry-after') ? Number(headers.get('retry-after')) : null
  }
}

/** No reply came, so a write may have been done or not. */
export class Unreachable extends Error {
  constructor() {
    super("the service can't be reached, so it isn't known whether this was done: try again")
  }
}

interface Options {
  body?: BodyInit
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  key?: string
  /** Sent also where the document is left. */
  keepalive?: boolean
}

/** A reply's envelope; lists have the paging beside their data. */
export interface Envelope<T> {
  data: T
  next_page_token?: string | null
  num_records?: number | null
}

/** Sends one request, and resolves to a reply that is no failure of the service. Throws `Unreachable`. */
export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const {
    headers = {},
    body = null,
    signal = null,
    key = session.value.key ?? '',
    keepalive = false,
  } = options
  const credential = btoa(String.fromCharCode(...new TextEncoder().encode(`api:${key}`)))
  const sent = { authorization: `Basic ${credential}`, ...headers }
  const response = await fetch(`${base}${path}`, {
    ...{ method, body, signal, keepalive, headers: sent },
    ...{ credentials: 'omit', cache: 'no-store' },
  }).catch((error: unknown) => {
    if (signal?.aborted === true) throw error
    return null
  })
  const isLost = response === null || [502, 503, 504].includes(response.status)
  if (isLost !== connection.value.isLost) connection.set({ isLost })
  if (isLost) throw new Unreachable()
  if (response.status === 401 && key === session.value.key) forgetKey()
  return response
}

/** A reply's envelope. Throws `ApiError` where it is a failure. */
export async function unwrap<T>(response: Response): Promise<Envelope<T>> {
  const reply = (await response.json().catch(() => ({}))) as Envelope<T> & {
    success?: boolean
    error_code?: string
    error_message?: string
  }
  if (reply.success === true) return reply
  throw new ApiError(response, reply.error_code, reply.error_message)
}

/** Reads are repeated until the service can be reached. */
export async function repeat<T>(signal: AbortSignal | undefined, read: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error
      await pause(retryMs, signal)
    }
  }
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(new DOMException('left', 'AbortError'))
    })
  })
}

export const getPage = <T>(path: string, signal?: AbortSignal): Promise<Envelope<T>> =>
  repeat(signal, async () => unwrap<T>(await send('GET', path, { signal })))

export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await getPage<T>(path, signal)).data

/** Where the service is reached by other protocols. */
export const getServiceAddresses = (signal: AbortSignal): Promise<{ ftp: string | null }> =>
  repeat(signal, async () => {
    const response = await fetch('/', {
      signal,
      credentials: 'omit',
      headers: { accept: 'application/json' },
    })
    return (await response.json()) as { ftp: string | null }
  })

/** A log as the browser got it, and null where there is none. */
export async function getLog(path: string, signal?: AbortSignal): Promise<Response | null> {
  const response = await repeat(signal, () => send('GET', path, { signal }))
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
  if (!isJson && response.ok) return response
  return unwrap(response).then(
    () => null,
    (error: unknown) => {
      if (error instanceof ApiError && error.code === 'not_found') return null
      throw error
    },
  )
}

/** One call, which is never repeated. */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  options: Omit<Options, 'body'> = {},
): Promise<T> {
  const headers = { 'content-type': 'application/json', ...options.headers }
  const sent = body === undefined ? options : { ...options, headers, body: JSON.stringify(body) }
  return (await unwrap<T>(await send(method, path, sent))).data
}

export const putBytes = async <T>(path: string, body: Blob, options: Options): Promise<T> =>
  (await unwrap<T>(await send('PUT', path, { ...options, body }))).data

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === 'AbortError'

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** What a page reads when it is opened, and again when one of `inputs` changes. */
export interface Loaded<T> {
  data: T | null
  error: string | null
  reload: () => void
  /** How many times it was read. */
  reads: number
}

export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[]): Loaded<T> {
  const store = usePageStore<{ data: T | null; error: string | null; turn: number; reads: number }>(() => ({
    ...{ data: null, error: null, turn: 0, reads: 0 },
  }))
  const { data, error, turn, reads } = store.value
  useEffect(() => {
    const leaving = new AbortController()
    load(leaving.signal).then(
      (loaded) => {
        if (!leaving.signal.aborted) store.set({ data: loaded, error: null, reads: store.value.reads + 1 })
      },
      (failure: unknown) => {
        if (!leaving.signal.aborted) store.set({ error: messageOf(failure), reads: store.value.reads + 1 })
      },
    )
    return () => leaving.abort()
  }, [...inputs, turn])
  return { data, error, reads, reload: () => store.set({ turn: store.value.turn + 1 }) }
}

/** Reads again so many milliseconds after the last read, while the page is seen. */
export function usePolling({ reload, reads }: Pick<Loaded<unknown>, 'reload' | 'reads'>, ms: number): void {
  useEffect(() => {
    const poll = () => {
      if (document.visibilityState === 'visible') reload()
    }
    const timer = setTimeout(poll, ms)
    document.addEventListener('visibilitychange', poll)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', poll)
    }
  }, [reads])
}

/** The rows of a list that comes in pages. `more` brings the next page; it is null after the last one. */
export interface Rows<T> extends Loaded<T[]> {
  more: (() => void) | null
}

/** `path` has a query. Reloading brings the first page again, and the others that were shown. */
export function useRows<T>(path: string, inputs: unknown[] = []): Rows<T> {
  const store = usePageStore(() => ({ pages: 1, path }))
  const pages = store.value.path === path ? store.value.pages : 1
  const loaded = useLoad<{ rows: T[]; next: string | null }>(
    async (signal) => {
      const rows: T[] = []
      let next: string | null = null
      for (let page = 0; page < pages && (page === 0 || next !== null); page += 1) {
        const token: string = next === null ? '' : `&page_token=${encodeURIComponent(next)}`
        const reply: Envelope<T[]> = await getPage<T[]>(`${path}${token}`, signal)
        rows.push(...reply.data)
        next = reply.next_page_token ?? null
      }
      return { rows, next }
    },
    [path, pages, ...inputs],
  )
  const hasMore = loaded.data !== null && loaded.data.next !== null
  return {
    ...loaded,
    data: loaded.data?.rows ?? null,
    more: hasMore ? () => store.set({ pages: pages + 1, path }) : null,
  }
}
