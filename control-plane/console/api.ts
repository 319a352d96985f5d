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
  readonly retryAfter: string | null
  constructor({ status, headers }: Response, code = 'internal_error', message = `the reply is ${status}`) {
    super(message)
    this.status = status
    this.code = code
    this.retryAfter = headers.get('retry-after')
  }
}

/** No reply came, so a write may have been done or not. */
export class Unreachable extends Error {
  constructor() {
    super("the service can't be reached, so it isn't known whether this was done: try again")
  }
}

interface Options {
  body?: BodyInit | null
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
  key?: string
  /** Sent also where the document is left. */
  keepalive?: boolean
}

/** A reply's envelope; lists have the paging beside their data. */
interface Envelope<T> {
  data: T
  next_page_token?: string | null
}

/** Sends one request, and resolves to a reply that is no failure of the service. Throws `Unreachable`. */
async function send(method: string, path: string, options: Options): Promise<Response> {
  const {
    headers = {},
    body = null,
    signal = null,
    key = session.value.key ?? '',
    keepalive = false,
  } = options
  const credential = btoa(String.fromCharCode(...new TextEncoder().encode(`api:${key}`)))
  const request = {
    method,
    body,
    signal,
    keepalive,
    headers: { authorization: `Basic ${credential}`, ...headers },
  }
  const response = await fetch(`${base}${path}`, {
    ...request,
    credentials: 'omit',
    cache: 'no-store',
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
async function unwrap<T>(response: Response): Promise<Envelope<T>> {
  type Failure = { success?: boolean; error_code?: string; error_message?: string }
  const reply = (await response.json().catch(() => ({}))) as Envelope<T> & Failure
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

/** A reply whose body is no envelope: a log, or a stream of events. */
export async function getStream(path: string, signal?: AbortSignal): Promise<Response> {
  const response = await repeat(signal, () => send('GET', path, { signal }))
  if (response.headers.get('content-type')?.startsWith('application/json') === true) await unwrap(response)
  return response
}

/** One call, which is never repeated. A body that isn't bytes goes as JSON. */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  options: Options = {},
): Promise<T> {
  const headers = { 'content-type': 'application/json', ...options.headers }
  const json = () => ({ ...options, headers, body: JSON.stringify(body) })
  const sent = body === undefined ? options : body instanceof Blob ? { ...options, body } : json()
  return (await unwrap<T>(await send(method, path, sent))).data
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** What a button does: whether it goes on, and what the API says against it. */
export function useAction() {
  const store = usePageStore({ isBusy: false, fault: null as string | null })
  const run = async (work: () => Promise<unknown>, describe: (error: unknown) => string) => {
    store.set({ isBusy: true, fault: null })
    const fault = await work().then(() => null, describe)
    store.set({ isBusy: false, fault })
  }
  return {
    ...store.value,
    run: (work: () => Promise<unknown>, describe = messageOf) => void run(work, describe),
  }
}

/**
 * What a page reads when it is opened, and again when one of `inputs` changes. With `pollMs` it is read again so many
 * milliseconds after the last reading, while the page is seen.
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[], pollMs?: number) {
  const store = usePageStore({ data: null as T | null, error: null as string | null, turn: 0 })
  const { data, error, turn } = store.value
  const reload = () => store.set({ turn: store.value.turn + 1 })
  useEffect(() => {
    const leaving = new AbortController()
    const { signal } = leaving
    const poll = () => document.hidden || reload()
    const show = (change: { data?: T; error: string | null }) => {
      if (signal.aborted) return
      store.set(change)
      if (pollMs === undefined) return
      const timer = setTimeout(poll, pollMs)
      document.addEventListener('visibilitychange', poll, { signal })
      signal.addEventListener('abort', () => clearTimeout(timer))
    }
    load(signal).then(
      (loaded) => show({ data: loaded, error: null }),
      (failure: unknown) => show({ error: messageOf(failure) }),
    )
    return () => leaving.abort()
  }, [...inputs, turn])
  return { data, error, reload }
}

/** The rows of a list that comes in pages, as a `table` takes them. */
interface Rows<T> {
  rows: T[] | null
  error: string | null
  reload: () => void
  /** Brings the next page; null after the last one. */
  more: (() => void) | null
}

/** `path` has a query. Reloading brings the first page again, and the others that were shown. */
export function useRows<T>(path: string, pollMs?: number): Rows<T> {
  const store = usePageStore({ pages: 1, path })
  const pages = store.value.path === path ? store.value.pages : 1
  const load = async (signal: AbortSignal) => {
    const rows: T[] = []
    let next: string | null = ''
    for (let page = 0; page < pages && next !== null; page += 1) {
      const token: string = next === '' ? '' : `&page_token=${encodeURIComponent(next)}`
      const reply: Envelope<T[]> = await getPage<T[]>(`${path}${token}`, signal)
      rows.push(...reply.data)
      next = reply.next_page_token ?? null
    }
    return { rows, next }
  }
  const { data, error, reload } = useLoad(load, [path, pages], pollMs)
  const more = () => store.set({ pages: pages + 1, path })
  return { rows: data?.rows ?? null, error, reload, more: (data?.next ?? null) === null ? null : more }
}
