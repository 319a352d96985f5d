import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate as nextRound } from 'node:timers/promises'
import { clock } from '../shared/runtime/clock.ts'
import { createServer } from '../shared/runtime/node-http.ts'
import { failureBody } from './api/envelope.ts'
import type { Part } from '../shared/runtime/service.ts'

/**
 * The HTTP server around the application. It bounds how long a client may take and how large headers may be, and it
 * ends connections at a stop. What Node refuses by itself gets the envelope of every other refusal: 400 for what is no
 * HTTP, 408 for what took too long, 431 for too large headers. URL and headers share Node's one bound, which doesn't say
 * which of them exceeded it, so there is no 414.
 */

export const httpLimits = {
  /** Bytes of the request line and all headers. Node's default is too small for 100 emails in one path. */
  maxHeaderSize: 64 * 1024,
  /** Counts from the first byte of a request, or from the connection: the headers must be complete by then. */
  headersTimeoutMs: 20_000,
  /** Counts from the end of the headers: the body must be complete by then, unless it is a file. */
  requestTimeoutMs: 300_000,
  /** A connection is cut when its client is silent for so long, as when a body stalls or a reply isn't read. */
  idleTimeoutMs: 60_000,
  /** The same for a file that is sent or received, as for FTP's data connections. */
  transferIdleTimeoutMs: 300_000,
  /** An idle connection waits this long for its next request. */
  keepAliveTimeoutMs: 65_000,
  /** At a stop, requests in flight have this long to end. */
  graceMs: 7_000,
  /** At a stop, a request may still arrive on an idle connection for this long. */
  idleGraceMs: 500,
  /** At a stop, requests that wait for a slot have this long to get one. */
  waitingGraceMs: 3_000,
  /** At a stop, headers that have begun to arrive have this long to become complete. */
  headersGraceMs: 3_000,
  /** Interval between checks of the timeouts for the headers and the body. */
  checkIntervalMs: 5_000,
}

export type HttpLimits = typeof httpLimits

/**
 * Creates a server with bounds against slow and silent clients; it doesn't listen yet. `stop` lets requests in flight
 * end. It calls `onStopping` when streams have to end and bodies have to arrive, and `onRefuse` when requests that wait
 * for a slot have to be refused.
 */
export function createHttpServer(
  listener: RequestListener,
  {
    limits = httpLimits,
    onStopping = () => {},
    onRefuse = () => {},
    isTransfer = () => false,
  }: {
    limits?: HttpLimits
    onStopping?: () => void
    onRefuse?: () => void
    /** Whether the request sends or receives a file. */
    isTransfer?: (request: IncomingMessage) => boolean
  } = {},
): Part & { server: Server } {
  const server = createServer(
    {
      maxHeaderSize: limits.maxHeaderSize,
      headersTimeout: limits.headersTimeoutMs,
      // Node's own bound has no exception for files, so bodies are bounded below.
      requestTimeout: 0,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: limits.checkIntervalMs,
      // Node's own refusal has no envelope; a missing header is refused below.
      requireHostHeader: false,
    },
    (request, response) => {
      const hosts = countHosts(request)
      if (request.httpVersion === '1.1' && hosts === 0)
        refuse(response, 400, 'the request has no Host header, which HTTP/1.1 requires')
      // A proxy may have checked one of the headers while this service would read another.
      else if (hosts > 1) refuse(response, 400, `the request has ${hosts} Host headers: send one`)
      else listener(request, response)
    },
  )
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    // The body of a file is asked for only when nothing speaks against the request.
    if (!isTransfer(request)) response.writeContinue()
    server.emit('request', request, response)
  })
  server.on('checkExpectation', (_request, response: ServerResponse) => {
    refuse(
      response,
      417,
      'only "Expect: 100-continue" is supported: send the request without another Expect header',
    )
  })
  server.timeout = limits.idleTimeoutMs
  server.on('timeout', (socket: Socket) => {
    // The client isn't idle while it waits for this service.
    if ([...inFlight.keys()].some((response) => response.req.socket === socket && isWorkedOn(response)))
      socket.setTimeout(socket.timeout ?? limits.idleTimeoutMs)
    else socket.destroy()
  })
  server.on('clientError', refuseClient)

  const connections = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  /** The time at which the body of each must be complete. */
  const inFlight = new Map<ServerResponse, number>()
  const slownessCheck = setInterval(() => {
    for (const [{ req, headersSent }, deadline] of inFlight)
      if (!req.complete && clock.monotonicMs() > deadline) refuseSlowBody(req.socket, headersSent)
  }, limits.checkIntervalMs).unref()
  let isStopping = false
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const isLong = isTransfer(request)
    inFlight.set(response, isLong ? Infinity : clock.monotonicMs() + limits.requestTimeoutMs)
    // Node sets the general bound again when the connection's next request comes.
    if (isLong) socket.setTimeout(limits.transferIdleTimeoutMs)
    response.once('close', () => inFlight.delete(response))
    if (isStopping) response.shouldKeepAlive = false
  })

  const stop = async (): Promise<void> => {
    isStopping = true
    // Replies in flight say "Connection: close", so that no client sends its next request to a stopping server.
    for (const response of inFlight.keys()) response.shouldKeepAlive = false
    clearInterval(slownessCheck)
    if (server.listening) await close()
    onStopping()
    onRefuse()
  }
  async function close(): Promise<void> {
    // Clients that have already connected are accepted first; the event loop needs two rounds for that.
    await nextRound()
    await nextRound()
    // The HTTP server's own `close` cuts idle connections at once, even where a proxy is just sending a request, whose
    // body it can't send again. Idle connections therefore stay for `idleGraceMs`; a request on one is still served,
    // with "Connection: close". Refusing such requests at once cost 17 of them in one upgrade, and without kept
    // connections a proxy loses requests that are connected and not yet accepted. Requests that wait for a slot are
    // refused only after `waitingGraceMs`: with 500 ms, 48 to 64 of 1,400 were, although 7 s were left to serve them.
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()))
    let sweep: NodeJS.Timeout | undefined
    const sweepIdle = () => {
      onStopping()
      sweep = setInterval(() => server.closeIdleConnections(), 50)
    }
    const timers = [
      setTimeout(sweepIdle, limits.idleGraceMs),
      setTimeout(onRefuse, limits.waitingGraceMs),
      setTimeout(closeWithoutRequest, limits.headersGraceMs),
      setTimeout(() => server.closeAllConnections(), limits.graceMs),
    ]
    await closed
    for (const timer of [...timers, sweep]) clearTimeout(timer)
  }
  function closeWithoutRequest(): void {
    const used = new Set([...inFlight.keys()].map(({ req }) => req.socket))
    for (const socket of connections) if (!used.has(socket)) socket.destroy()
  }
  return { server, stop }
}

/** Whether the next byte is this service's to read or to write. */
const isWorkedOn = ({ req, writableLength }: ServerResponse): boolean =>
  writableLength === 0 && (req.complete || req.isPaused())

function refuseSlowBody(socket: Socket, hasReply: boolean): void {
  if (hasReply) socket.destroy()
  else refuseClient(Object.assign(new Error('slow body'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket)
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

/** Counts in the raw headers, because `headersDistinct` would build a list for every header of each request. */
function countHosts({ rawHeaders }: IncomingMessage): number {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'host') hosts += 1
  return hosts
}

/** Refuses a request before the application gets it. Its body isn't read, so the connection has to close. */
function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    Connection: 'close',
  })
  response.end(JSON.stringify(failureBody('invalid_request', message)))
}

/** Refuses what Node couldn't parse. It has no response object, so the reply is written to the socket as text. */
function refuseClient(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, message } = refusals[error.code ?? ''] ?? {
    status: '400 Bad Request',
    message: 'the request is not valid HTTP',
  }
  const body = JSON.stringify(failureBody('invalid_request', message))
  const head = [
    `HTTP/1.1 ${status}`,
    'Connection: close',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
