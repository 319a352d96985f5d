import { randomUUID } from 'node:crypto'
import { isIP } from 'node:net'
import type { Request, RequestHandler, Response } from 'express'
import { Gauge, Histogram, type Registry } from 'prom-client'
import { clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { credentialCandidates } from '../api/credentials.ts'
import { requestLocals, type RequestState } from '../api/request-locals.ts'
import { actorFields } from '../../shared/store/api-keys.ts'

const clientRequestId = /^[\w.-]{1,128}$/

/**
 * Gives every request an id, logs its end, and measures it. The client's own id is used if it is well-formed and
 * doesn't contain the API key.
 */
export function requestLog(log: Logger, registry: Registry): RequestHandler {
  const durations = new Histogram({
    name: 'rollcall_http_request_duration_seconds',
    help: 'Time from a request to the end of its reply, of an event stream to its first byte; without scrapes and probes',
    labelNames: ['method', 'route', 'status', 'error_code'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
  // Rates and shares are 0 before the first request, and not without a value.
  durations.zero({ method: 'GET', route: 'none', status: '404', error_code: 'not_found' })
  const inFlight = new Gauge({
    name: 'rollcall_http_requests_in_flight',
    help: 'Requests whose reply has not ended, without open event streams',
    registers: [registry],
  })
  return (request, response, next) => {
    inFlight.inc()
    const startedAt = clock.monotonicMs()
    const sentId = request.get('x-request-id')
    const isUsable =
      sentId !== undefined &&
      clientRequestId.test(sentId) &&
      !containsKey(sentId, request.headers.authorization)
    const id = isUsable ? sentId : randomUUID()
    const { method } = request
    let isStream = false
    let isProbe = false
    let isInFlight = true
    const decrementInFlight = () => {
      if (isInFlight) inFlight.dec()
      isInFlight = false
    }
    const elapsedMs = () => clock.monotonicMs() - startedAt
    // An event stream usually ends when its client leaves, so that is no error.
    const status = () => (response.writableFinished || isStream ? response.statusCode : 499)
    const measure = () => {
      if (!isInFlight) return
      decrementInFlight()
      const labels = {
        method: knownMethods.has(method) ? method : 'other',
        route: state.route,
        status: String(status()),
        error_code: state.errorCode,
      }
      durations.observe(labels, elapsedMs() / 1000)
    }
    const state: RequestState = {
      id,
      log: log.child({ request_id: id }),
      route: 'none',
      errorCode: '',
      address: clientAddress(request),
      recordIds: {},
      measureNow() {
        isStream = true
        measure()
      },
      excludeFromMetrics() {
        isProbe = true
        decrementInFlight()
      },
    }
    requestLocals(response).state = state
    response.set('X-Request-Id', id)
    response.once('close', () => {
      measure()
      // Probes and scrapes come every few seconds and would be the largest part of the log.
      state.log[isProbe ? 'debug' : 'info'](
        {
          method,
          route: state.route,
          status: status(),
          error_code: state.errorCode || undefined,
          ms: Math.round(elapsedMs()),
          ...callerFields(response),
          ...state.recordIds,
        },
        'request',
      )
    })
    next()
  }
}

/**
 * The socket's address, or the one that a trusted proxy names, with or without a port. What a proxy passes on and is no
 * address counts as the proxy's. An IPv4 address that comes over an IPv6 socket loses its prefix ::ffff:.
 */
function clientAddress({ ip = '', socket }: Request): string {
  const [, bare = ip] = /^\[(.+)\](?::\d+)?$/.exec(ip) ?? /^([\d.]+):\d+$/.exec(ip) ?? []
  return (isIP(bare) > 0 ? bare : (socket.remoteAddress ?? '')).replace(/^::ffff:(?=[\d.]+$)/i, '')
}

function callerFields(response: Response) {
  const { caller, state } = requestLocals(response)
  return caller === undefined ? { address: state.address } : actorFields(caller, state.address)
}

/** Ids are logged, so they must not contain the request's own key. */
const containsKey = (id: string, authorization = ''): boolean =>
  credentialCandidates(authorization).some(({ key }) => key !== '' && id.includes(key))

const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
