import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate as nextRound } from 'node:timers/promises'
import type { RequestErrorCode } from '../shared/contract/errors.ts'
import { operationsPaths, type Part } from '../shared/runtime/service.ts'
import type { HttpConnections } from './http-connections.ts'

/**
 * The HTTP server around the application: how long a client may take, how much it may send before anybody looks at it,
 * and how everything ends. What Node refuses by itself gets the envelope that every other refusal has.
 */

export interface HttpLimits {
  /** Bytes of the request line and the headers together: 100 emails in one path are longer than Node's default. */
  maxHeaderSize: number
  /** From the connection to its first byte. */
  firstByteTimeoutMs: number
  /** From the first byte of a request to the end of its headers. */
  headersTimeoutMs: number
  /** From the first byte of a request to the end of its body. */
  requestTimeoutMs: number
  /** For which nothing moves in either direction: a body that stops, a reply that nobody reads. */
  idleTimeoutMs: number
  /** For which a connection waits for its next request. */
  keepAliveTimeoutMs: number
  /** For which requests under way may go on when the server stops. */
  graceMs: number
  /** For which connections without a request may still bring one when the server stops. */
  idleGraceMs: number
  /** For which headers that have begun to come may go on when the server stops. */
  headersGraceMs: number
  /** How often the first three are looked at. */
  checkEveryMs: number
}

export const httpLimits: HttpLimits = {
  maxHeaderSize: 64 * 1024,
  firstByteTimeoutMs: 10_000,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 300_000,
  idleTimeoutMs: 60_000,
  keepAliveTimeoutMs: 65_000,
  graceMs: 7_500,
  idleGraceMs: 500,
  headersGraceMs: 3_000,
  checkEveryMs: 5_000,
}

export interface HttpServer extends Part {
  server: Server
}

/**
 * A server with bounds against slow and silent clients, not yet listening. Its `stop` lets running requests end;
 * `onRefuse` is called when requests that wait for something are to be refused from then on.
 */
export function createHttpServer(
  listener: RequestListener,
  connections: HttpConnections,
  { limits = httpLimits, onRefuse = () => {} }: { limits?: HttpLimits; onRefuse?: () => void } = {},
): HttpServer {
  const server = createServer(
    {
      maxHeaderSize: limits.maxHeaderSize,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: limits.checkEveryMs,
      // Node's own refusal has no envelope.
      requireHostHeader: false,
    },
    (request, response) => {
      const hosts = countHosts(request)
      if (request.httpVersion === '1.1' && hosts === 0)
        refuse(response, 400, 'the request has no Host header, which HTTP/1.1 requires')
      // A proxy may have checked another one than the one that is read here.
      else if (hosts > 1) refuse(response, 400, `the request has ${hosts} Host headers: send one`)
      else if (connections.isRefused(request.socket) && !operationsPaths.includes(request.url ?? ''))
        refuse(response, 503, 'there are too many connections at the moment: try again in a few seconds')
      else listener(request, response)
    },
  )
  server.on('checkExpectation', (_request, response: ServerResponse) => {
    refuse(response, 417, 'the only expectation that can be met is "Expect: 100-continue"')
  })
  server.timeout = limits.idleTimeoutMs
  server.on('clientError', refuseClient)

  server.on('connection', (socket: Socket) => connections.add(socket))
  const silenceCheck = setInterval(
    () => connections.closeSilent(limits.firstByteTimeoutMs),
    limits.checkEveryMs,
  ).unref()
  const underWay = new Set<ServerResponse>()
  let isStopping = false
  server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    underWay.add(response)
    connections.requestBegun(socket)
    response.once('close', () => {
      underWay.delete(response)
      connections.requestEnded(socket)
    })
    if (isStopping || connections.isRefused(socket)) response.shouldKeepAlive = false
  })

  const stop = async (): Promise<void> => {
    isStopping = true
    // Their replies say "Connection: close", so that no client sends its next request into a server that is going.
    for (const response of underWay) response.shouldKeepAlive = false
    clearInterval(silenceCheck)
    if (server.listening) await close()
    onRefuse()
  }
  async function close(): Promise<void> {
    // Clients that have connected are accepted before the server listens no more: a round of the event loop does that.
    await nextRound()
    await nextRound()
    // The HTTP server's own `close` cuts idle connections at once, also one on which a proxy is just sending a request,
    // and the proxy can't send that request's body a second time. So they stay for a moment, and a request that comes on
    // one is served with "Connection: close".
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()))
    let sweep: NodeJS.Timeout | undefined
    const refuseAndSweep = () => {
      onRefuse()
      sweep = setInterval(() => server.closeIdleConnections(), 50)
    }
    const timers = [
      setTimeout(refuseAndSweep, limits.idleGraceMs),
      setTimeout(() => connections.closeWithoutRequest(), limits.headersGraceMs),
      setTimeout(() => server.closeAllConnections(), limits.graceMs),
    ]
    await closed
    for (const timer of [...timers, sweep]) clearTimeout(timer)
  }
  return { server, stop }
}

const refusals: Record<string, { status: string; message: string }> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    message: 'the URL and the headers are longer than 64 KiB together: send less in one request',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: '408 Request Timeout',
    message: 'the request took too long to arrive: send it again over a faster connection, or in parts',
  },
}

/** Counted in the raw headers: `headersDistinct` would make lists of all of them for each request. */
function countHosts({ rawHeaders }: IncomingMessage): number {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]!.toLowerCase() === 'host') hosts += 1
  return hosts
}

/** What is refused before the application has a look at it. The body isn't read, so that the connection ends. */
function refuse(response: ServerResponse, status: number, message: string): void {
  const code: RequestErrorCode = status === 503 ? 'internal_error' : 'invalid_request'
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    Connection: 'close',
    ...(status === 503 ? { 'Retry-After': '5' } : {}),
  })
  response.end(JSON.stringify({ success: false, data: null, error_code: code, error_message: message }))
}

/** Before there is a request there is no response to write to: the reply is written by hand. */
function refuseClient(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, message } = refusals[error.code ?? ''] ?? {
    status: '400 Bad Request',
    message: 'this is no HTTP request',
  }
  const code: RequestErrorCode = 'invalid_request'
  const body = JSON.stringify({ success: false, data: null, error_code: code, error_message: message })
  const head = [
    `HTTP/1.1 ${status}`,
    'Connection: close',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
