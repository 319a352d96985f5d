import type { LookupFunction, Socket } from 'node:net'
import type { Agent, Dispatcher } from 'undici'
import { AddressRefused, type AddressGuard } from './address-guard.ts'
import { toError } from '../contract/errors.ts'
import type { DownloadBounds } from './download-bounds.ts'
import { failedTry, maskUrl, type RemoteTarget } from './remote-file.ts'

/**
 * One request to a server that a client named, on a connection of its own to the checked address. Redirects aren't
 * followed here. undici is loaded at the first request, since it takes 25 ms or more of processor time, and many
 * processes never make one.
 */

const maxHeaderBytes = 16 * 1024
/** Informational answers (1xx) before the final one. */
const maxInformational = 20

interface GuardedRequest {
  signal: AbortSignal
  method?: 'GET' | 'POST'
  headers: Record<string, string>
  body?: string
}

/**
 * Resolves to the answer when its headers are there. The caller reads the body or destroys it, and destroys the
 * agent. Throws ImportError `source_unavailable` (retryable) after too many informational answers, AddressRefused,
 * the signal's reason, and undici's errors.
 */
export async function sendGuardedRequest(
  { url, credentials }: RemoteTarget,
  agent: Agent,
  { signal, headers, ...more }: GuardedRequest,
): Promise<Dispatcher.ResponseData> {
  const { request } = await import('undici')
  const flood = new AbortController()
  let informational = 0
  return request(url, {
    ...more,
    dispatcher: agent,
    // Sends "Connection: close". Most servers answer with it too, and undici then expects the end of the connection.
    reset: true,
    signal: AbortSignal.any([signal, flood.signal]),
    headers: {
      ...headers,
      'user-agent': 'Rollcall',
      ...(credentials === null ? {} : { authorization: basicAuthorization(credentials) }),
    },
    onInfo: () => {
      informational += 1
      if (informational > maxInformational)
        flood.abort(failedTry(`${maskUrl(url)} sent more than ${maxInformational} informational answers`))
    },
  })
}

const basicAuthorization = ({ username, password }: { username: string; password: string }): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

/** Throws AddressRefused when the host is a literal address that is refused. Literals are never looked up. */
export function refuseLiteral(guard: AddressGuard, { url }: RemoteTarget): void {
  const problem = guard.literalProblem(url.hostname)
  if (problem !== null) throw new AddressRefused(problem)
}

/** Connects only to allowed addresses, and checks the remote address of each connection again. */
export async function guardedAgent(
  guard: AddressGuard,
  { connectMs, silenceMs }: Pick<DownloadBounds, 'connectMs' | 'silenceMs'>,
  onSocket: (socket: Socket) => void = () => undefined,
): Promise<Agent> {
  const { Agent, buildConnector } = await import('undici')
  const connect = buildConnector({
    lookup: guardedLookup(guard),
    timeout: connectMs,
    allowH2: false,
    // Otherwise Node.js closes the socket as soon as the server has closed its side.
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
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
  })
}

/** Look-up for the connector: answers with the addresses if all are allowed. Literals are not looked up. */
function guardedLookup(guard: AddressGuard): LookupFunction {
  return (hostname, options, callback) => {
    guard.resolve(hostname).then(
      (answers) => {
        const [first] = answers
        if (options.all === true) callback(null, answers)
        else if (first === undefined) callback(new Error(`${hostname} has no address`), '', 0)
        else callback(null, first.address, first.family)
      },
      (error: unknown) => {
        callback(toError(error), '', 0)
      },
    )
  }
}
