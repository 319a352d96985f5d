import type { LookupFunction } from 'node:net'
import { Agent, buildConnector, request, type Dispatcher } from 'undici'
import { AddressRefused, type AddressGuard } from '../address-guard.ts'
import type { DownloadBounds } from './download-bounds.ts'
import { HeldEnd } from './held-end.ts'
import {
  failedTry,
  quoted,
  shown,
  type OpenOptions,
  type RemoteFile,
  type RemoteTarget,
} from './remote-file.ts'

/**
 * Opens a file over http or https; a redirect is handed back. What is connected to is the address that was checked, and
 * each hop has a connection of its own.
 */

const redirectStatuses = new Set([301, 302, 303, 307, 308])
const longestHeaders = 16 * 1024
/** Informational answers (1xx) before the real one. */
const mostInformational = 20

export async function openByHttp(
  target: RemoteTarget,
  options: OpenOptions,
): Promise<RemoteFile | { location: string | undefined }> {
  const { url } = target
  const problem = options.guard.literalProblem(url.hostname)
  if (problem !== null) throw new AddressRefused(problem)
  const end = new HeldEnd()
  const agent = guardedAgent(options.guard, options.bounds, end)
  try {
    const response = await ask(target, agent, options.signal)
    // Its end, good or bad, is told to whoever reads it; where nobody does, it isn't news.
    response.body.on('error', () => undefined)
    if (redirectStatuses.has(response.statusCode)) {
      await agent.destroy()
      return { location: headerText(response.headers['location']) }
    }
    return { ...opened(response, url), body: end.read(response.body), close: () => agent.destroy() }
  } catch (error) {
    await agent.destroy()
    throw error
  }
}

async function ask(
  { url, credentials }: RemoteTarget,
  agent: Agent,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const flood = new AbortController()
  let informational = 0
  return request(url, {
    dispatcher: agent,
    // One request a connection: a server that is told so says so in its answer, and then its closing is no surprise.
    reset: true,
    signal: AbortSignal.any([signal, flood.signal]),
    headers: {
      'accept-encoding': 'identity',
      'user-agent': 'Rollcall',
      ...(credentials === null ? {} : { authorization: basic(credentials) }),
    },
    onInfo: () => {
      informational += 1
      if (informational > mostInformational)
        flood.abort(failedTry(`${shown(url)} sent more than ${mostInformational} informational answers`))
    },
  })
}

const basic = ({ username, password }: { username: string; password: string }): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

function opened(
  { statusCode, headers }: Dispatcher.ResponseData,
  url: URL,
): Pick<RemoteFile, 'expected' | 'isEncoded'> {
  if (statusCode !== 200) throw failedTry(`${shown(url)} answered with status ${statusCode}, expected 200`)
  const encoding = headerText(headers['content-encoding'])?.trim().toLowerCase() ?? ''
  const isEncoded = encoding === 'gzip' || encoding === 'x-gzip'
  if (!isEncoded && encoding !== '' && encoding !== 'identity')
    throw failedTry(
      `the file from ${shown(url)} came with Content-Encoding ${JSON.stringify(quoted(encoding, null))}, expected gzip or none`,
    )
  const length = headerText(headers['content-length'])
  return {
    expected: length !== undefined && /^\d+$/.test(length) ? Number(length) : null,
    isEncoded,
  }
}

/** Connects only to addresses that passed, and looks once more where the connection went. */
function guardedAgent(guard: AddressGuard, { connectMs, silenceMs }: DownloadBounds, end: HeldEnd): Agent {
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
          end.hold(socket)
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

const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value
