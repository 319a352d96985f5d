import type { LookupFunction, Socket } from 'node:net'
import { Agent, buildConnector, request, type Dispatcher } from 'undici'
import { AddressRefused, type AddressGuard } from './address-guard.ts'
import type { DownloadBounds } from './download-bounds.ts'
import { failedTry, shown, type RemoteTarget } from './remote-file.ts'

/**
 * One request to a server that a client named, on a connection of its own: what is connected to is the address that
 * was checked. Redirects aren't followed here.
 */

const longestHeaders = 16 * 1024
/** Informational answers (1xx) before the real one. */
const maxInformational = 20

export interface GuardedRequest {
  signal: AbortSignal
  method?: 'GET' | 'POST'
  headers: Record<string, string>
  body?: string
}

/**
 * Resolves to the answer when its head is there; its body is the caller's to read or to end, with the agent. Throws
 * ImportError `source_unavailable` (retryable) for a server that sends no end of informational answers, AddressRefused,
 * the signal's reason, and undici's errors.
 */
export async function ask(
  { url, credentials }: RemoteTarget,
  agent: Agent,
  { signal, headers, ...more }: GuardedRequest,
): Promise<Dispatcher.ResponseData> {
  const flood = new AbortController()
  let informational = 0
  return request(url, {
    ...more,
    dispatcher: agent,
    // One request a connection: a server that is told so says so in its answer, and then its closing is no surprise.
    reset: true,
    signal: AbortSignal.any([signal, flood.signal]),
    headers: {
      ...headers,
      'user-agent': 'Rollcall',
      ...(credentials === null ? {} : { authorization: basic(credentials) }),
    },
    onInfo: () => {
      informational += 1
      if (informational > maxInformational)
        flood.abort(failedTry(`${shown(url)} sent more than ${maxInformational} informational answers`))
    },
  })
}

const basic = ({ username, password }: { username: string; password: string }): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

/** Throws when the host spells out an address that is refused: of literals no look-up hears. */
export function refuseLiteral(guard: AddressGuard, { url }: RemoteTarget): void {
  const problem = guard.literalProblem(url.hostname)
  if (problem !== null) throw new AddressRefused(problem)
}

/** Connects only to addresses that passed, and looks once more where the connection went. */
export function guardedAgent(
  guard: AddressGuard,
  { connectMs, silenceMs }: Pick<DownloadBounds, 'connectMs' | 'silenceMs'>,
  onSocket: (socket: Socket) => void = () => undefined,
): Agent {
  const connect = buildConnector({
    lookup: guardedLookup(guard),
    timeout: connectMs,
    allowH2: false,
    // Or node closes the socket by itself when the server has closed its side.
    allowHalfOpen: true,
  })
  return new Agent({
    connect: (options, callback) => {
      connect(options, (...[error, socket]) => {
        if (error !== null) {
          callback(error, null)
          return
        }
        const problem = guard.connectionProblem(
          options.hostname,
          socket.remoteAddress ?? 'an unknown address',
        )
        if (problem === null) {
          onSocket(socket)
          callback(null, socket)
          return
        }
        socket.destroy()
        callback(new AddressRefused(problem), null)
      })
    },
    allowH2: false,
    connections: 1,
    pipelining: 1,
    maxHeaderSize: longestHeaders,
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
  })
}

/** For the connector: looks the name up and answers with the addresses that passed. Literals don't come here. */
function guardedLookup(guard: AddressGuard): LookupFunction {
  return (hostname, options, callback) => {
    guard.resolve(hostname).then(
      (answers) => {
        if (options.all === true) callback(null, answers)
        else callback(null, answers[0]!.address, answers[0]!.family)
      },
      (error: unknown) => {
        callback(error as Error, '', 0)
      },
    )
  }
}
