import type { IncomingMessage } from 'node:http'
import { Router, type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express'
import { contentEncodings } from '../../shared/net/content-encoding.ts'
import { clock } from '../../shared/runtime/clock.ts'
import type { Caller } from '../../shared/store/api-keys.ts'
import { methodRefusal, RequestError } from './request-error.ts'
import type { ControlPlane } from '../control-plane.ts'
import { refuseOtherSites } from '../middleware/other-sites.ts'
import { rateLimitByKey } from '../middleware/rate-limit.ts'
import { findCallOrganization, refuseCaller } from './authorization.ts'
import { notAFile, notJson, rawPieces } from './body/body-pieces.ts'
import { credentialCandidates, keyOfOtherUser } from './credentials.ts'
import { logRefusedLogin } from './login-log.ts'
import type { BodyDescription, Endpoint, Reply, RequestCall } from './endpoint.ts'
import { notAnEndpoint, sendData } from './envelope.ts'
import { writePieces } from './pieces.ts'
import { requestLocals } from './request-locals.ts'
import {
  acquireLargeReply,
  acquireUntilClosed,
  whenClosed,
  type AllSlots,
  type SlotName,
  type SlotRequest,
} from './slots.ts'
import { documentIn, isHash, readBody, readQuery, unknownKeys, unknownKeysWarnings } from './validation.ts'

/**
 * Makes an Express router of the endpoints. The order of the checks: credential, rate of the key, path, method, role,
 * origin of a POST, content type, size, JSON. Then the handler finds what the path names, and checks the body. Clients
 * may rely on this order.
 */
export function apiRouter(endpoints: readonly Endpoint[], deps: ControlPlane): Router {
  const router = Router({ caseSensitive: true })
  router.use(requireCredential(deps), ...rateLimitByKey(deps.settings.HTTP_REQUESTS_PER_MINUTE))
  for (const [path, methods] of Map.groupBy(endpoints, (described) => described.path)) {
    const route = router.route(path)
    for (const described of methods) {
      route[described.method](
        authorize(described),
        ...(described.method === 'post' ? [refuseOtherSites(deps.publicUrl)] : []),
        ...(described.file === undefined ? readJsonBody(described, deps) : [requireFile]),
        answer(described, deps),
        logRefusal(described),
      )
    }
    route.all(refuseMethod(methods))
  }
  router.use(notAnEndpoint)
  return router
}

/**
 * Whether a request is for an endpoint that transfers a file. Such a request may take as long as bytes move, whatever
 * its credential: one that is refused is cut soon.
 */
export function transferMatcher(
  endpoints: readonly Endpoint[],
  basePath: string,
): (request: Pick<IncomingMessage, 'method' | 'url'>) => boolean {
  const paths = endpoints
    .filter(({ file, reply }) => file !== undefined || 'file' in reply)
    .map(({ path }) => `${basePath}${path}`.replaceAll(/:\w+/g, '[^/?]+'))
  const pattern = new RegExp(`^(?:${[...new Set(paths)].join('|')})/?(?:\\?|$)`)
  return ({ url = '' }) => pattern.test(url)
}

function requireCredential(deps: ControlPlane): RequestHandler {
  const { callers, throttle } = deps
  return async (request, response, next) => {
    const header = request.headers.authorization
    const hasBasic = header !== undefined && /^basic(?: |$)/i.test(header)
    // None of these counts as a wrong credential, because no key was tried.
    if (!hasBasic && (header ?? '') !== '') throw unauthorized(`Authorization ${basicOnly}`)
    if (!hasBasic && request.headers['x-api-key'] !== undefined)
      throw unauthorized(`the API key is not read from X-API-Key: Authorization ${basicOnly}`)
    if (!hasBasic) throw unauthorized('an Authorization header with an API key is required')
    const candidates = credentialCandidates(header)
    for (const { key, organizationId } of candidates) {
      const caller = await callers.find(key)
      if (caller === null || (organizationId !== null && organizationId !== caller.organizationId)) continue
      const locals = requestLocals(response)
      const { state } = locals
      Object.assign(locals, {
        caller: { ...caller, address: state.address },
        key,
        checkedAt: clock.monotonicMs(),
      })
      deps.logins.record(state, caller)
      next()
      return
    }
    const { state } = requestLocals(response)
    const { blockedSeconds, isLogged } = await throttle.recordFailure(state.address)
    const misplaced = keyOfOtherUser(header)
    if (isLogged) {
      const keys = [...candidates.map(({ key }) => key), ...(misplaced === null ? [] : [misplaced])]
      const reason = misplaced === null ? wrongKey : 'the user is not "api"'
      await logRefusedLogin(deps, state, keys, keys.length === 0 ? 'the credential is malformed' : reason)
    }
    const message = misplaced === null ? wrongKey : `Authorization ${basicOnly}`
    throw blockedSeconds > 0 ? tooManyFailures(blockedSeconds) : unauthorized(message)
  }
}

const wrongKey = 'the API key is wrong or no longer active'

const basicOnly =
  'must have the scheme Basic, with the user "api" and the API key as password, as in curl -u api:KEY'

function unauthorized(message: string): RequestError {
  return new RequestError('not_authorized', message, {
    status: 401,
    headers: { 'WWW-Authenticate': 'Basic realm="svc"' },
  })
}

function tooManyFailures(seconds: number): RequestError {
  return new RequestError(
    'not_authorized',
    `too many wrong credentials came from this address: try again in ${seconds} s`,
    { status: 429, retryAfter: seconds },
  )
}

function authorize(described: Endpoint): RequestHandler {
  const pathIds = pathIdsReader(described.path)
  return (request, response, next) => {
    const { state, caller } = requestLocals(response)
    state.route = described.path
    state.recordIds = pathIds(request.params)
    refuseCaller(caller, described)
    next()
  }
}

/** Reads the ids in a path. An address of a subscriber, a name of a file or a token is none. */
function pathIdsReader(path: string): (params: Request['params']) => Record<string, number> {
  const names = [...path.matchAll(/:(id|\w+_id|id_or_email)\b/g)].map(([, name = '']) => name)
  return (params) => {
    const ids: Record<string, number> = {}
    for (const name of names)
      if (/^\d{1,15}$/.test(String(params[name])))
        ids[name === 'id_or_email' ? 'id' : name] = Number(params[name])
    return ids
  }
}

/** A request may wait for its body or its slot for minutes. What its caller lost meanwhile must not be used. */
const maxCheckedMs = 2_000

/** Throws 401 or 403 when the key has been revoked, or lost what the endpoint needs, since it was checked. */
async function checkCallerAgain(
  described: Endpoint,
  response: Response,
  { callers }: ControlPlane,
): Promise<void> {
  const locals = requestLocals(response)
  if (clock.monotonicMs() - locals.checkedAt < maxCheckedMs) return
  const caller = await callers.find(locals.key)
  if (caller === null) throw unauthorized(wrongKey)
  locals.caller = { ...caller, address: locals.state.address }
  refuseCaller(caller, described)
}

/** Reads a JSON body. The handler decides whether it may be missing. */
function readJsonBody(described: Endpoint, deps: ControlPlane): RequestHandler[] {
  const { body } = described
  if (body === undefined) return []
  return [
    requireJson,
    async (request, response, next) => {
      requestLocals(response).body = await deps.bodies.read(request, {
        inlineText: body.inlineText,
        stopping: deps.stopping,
        admitLarge: () => acquireUntilClosed(deps.slots.largeBodies, response, createSlotRequest(response)),
      })
      next()
    },
  ]
}

const requireFile: RequestHandler = (request, _response, next) => {
  const {
    'content-type': type = '',
    'content-encoding': encoding = '',
    'transfer-encoding': transferEncoding = 'chunked',
  } = request.headers
  const isEncoded =
    contentEncodings(encoding).length > 0 ||
    // S3 clients put frames with signatures around such a body.
    encoding.toLowerCase().includes('aws-chunked') ||
    transferEncoding.toLowerCase() !== 'chunked'
  if (/^\s*multipart\//i.test(type) || isEncoded)
    throw new RequestError('invalid_request', notAFile, { status: 415 })
  next()
}

function logRefusal({ logRefused }: Endpoint): ErrorRequestHandler {
  return (error, request, response, next) => {
    const { caller, state, work } = requestLocals(response)
    const params = request.params as Record<string, string>
    if (work === undefined) logRefused?.({ caller, log: state.log, params }, error)
    next(error)
  }
}

const requireJson: RequestHandler = (request, _response, next) => {
  const hasBody =
    request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
  const sent = request.headers['content-type'] ?? ''
  const [type, ...parameters] = sent.toLowerCase().split(';')
  const charset = parameters
    .map((parameter) => /^\s*charset="?([^"\s]*)/.exec(parameter)?.[1])
    .find((name) => name !== undefined)
  const isJson = type?.trim() === 'application/json' && (charset === undefined || /^utf-?8$/.test(charset))
  if (hasBody && !isJson)
    throw new RequestError('invalid_request', notJson(sent.slice(0, 100)), { status: 415 })
  next()
}

function answer(described: Endpoint, deps: ControlPlane): RequestHandler {
  const work = async (request: Request, response: Response): Promise<void> => {
    const { body } = requestLocals(response)
    nameUnknownKeys(response, unknownKeysWarnings(described, request.query, body?.value))
    const slotRequest = createSlotRequest(response)
    let call: RequestCall
    let reply: Reply
    let releaseSlot = await acquireSlot(deps.slots, slotOf(described, request), slotRequest)
    try {
      await checkCallerAgain(described, response, deps)
      const slot = {
        releaseSlot: () => releaseSlot(),
        async changeSlot(name: SlotName) {
          releaseSlot()
          releaseSlot = await acquireSlot(deps.slots, name, slotRequest)
        },
      }
      call = await createCall(request, response, described, deps, slotRequest, slot)
      // A large reply waits for a slot of its own, and must not delay the organization's other requests meanwhile.
      if (described.hasLargeReply === true) await call.acquireLargeReply()
      reply = await handle(described, call, { request, sent: body?.value })
    } finally {
      releaseSlot()
    }
    if (request.method !== 'GET') logRecordId(response, reply)
    if (described.body?.hasWarnings === true)
      nameUnknownKeys(response, unknownKeysWarnings(described, request.query, undefined))
    await send(request, response, reply, call)
  }
  return (request, response) => (requestLocals(response).work = work(request, response))
}

function nameUnknownKeys(response: Response, warnings: string[]): void {
  if (warnings.length > 0) response.set('Warning', warnings)
  else response.removeHeader('Warning')
}

/** The line of a request that made or changed a record has its id, which the path may not have. */
function logRecordId(response: Response, reply: Reply): void {
  const { state } = requestLocals(response)
  const id: unknown = 'data' in reply && isHash(reply.data) ? reply.data['id'] : undefined
  if (typeof id === 'number') state.recordIds = { id, ...state.recordIds }
}

function lastSegment(request: Request): string {
  const path = request.path.replace(/\/$/, '')
  return path.slice(path.lastIndexOf('/') + 1)
}

const slotOf = ({ slot, reply }: Endpoint, request: Request): SlotName | null =>
  typeof slot === 'function' ? slot(request) : slot === undefined ? defaultSlot(reply) : slot

const defaultSlot = (reply: Endpoint['reply']): SlotName => ('paging' in reply ? 'pages' : 'requests')

/** Resolves to the function that releases the request's slot. */
const acquireSlot = async (
  slots: AllSlots,
  name: SlotName | null,
  request: SlotRequest,
): Promise<() => void> => (name === null ? () => undefined : slots[name].acquire(request))

/** Finds the record, checks query and body, and has the request handled. A missing record is told before a faulty body. */
async function handle(described: Endpoint, call: RequestCall, { request, sent }: Sent): Promise<Reply> {
  const record: unknown = await described.record?.find(call)
  await described.permit?.(call, record)
  const query = readQuery(described.query, request.query)
  const body =
    described.body === undefined
      ? undefined
      : readBody(described.body, sent, ignoredKeys(described.body, call.caller))
  return described.handle({ ...call, record, query, body })
}

interface Sent {
  request: Request
  /** The body's JSON. */
  sent: unknown
}

async function createCall(
  request: Request,
  response: Response,
  described: Endpoint,
  deps: ControlPlane,
  slotRequest: ReturnType<typeof createSlotRequest>,
  slot: Pick<RequestCall, 'releaseSlot' | 'changeSlot'>,
): Promise<RequestCall> {
  const { caller, body: sent, state } = requestLocals(response)
  const params = request.params as Record<string, string>
  const organizationId = await findCallOrganization(deps, caller, described, params)
  let largeReply: Promise<void> | undefined
  return {
    deps,
    caller,
    log: state.log,
    organizationId,
    params,
    lastSegment: lastSegment(request),
    // A range is defined for GET only.
    header: (name) =>
      request.method === 'HEAD' && name === 'range' ? [] : (request.headersDistinct[name] ?? []),
    onClose: (listener) => whenClosed(response, listener),
    cutReply: () => void response.destroy(),
    ...slot,
    acquireLargeReply() {
      slot.releaseSlot()
      return (largeReply ??= acquireLargeReply(deps.slots.largeReplies, response, slotRequest))
    },
    clientGone: slotRequest.clientGone,
    acquireTransfer: () => acquireUntilClosed(deps.slots.transfers, response, slotRequest),
    fileBody(signal) {
      if (request.headers.expect !== undefined) response.writeContinue()
      return rawPieces(request, { stopping: deps.stopping, stoppingMessage: uploadNotArrived, signal })
    },
    document: documentIn(described.body?.wrapper ?? null, sent?.value),
    unknownKeys: () => (described.body === undefined ? [] : unknownKeys(described.body, sent?.value)),
    bodyHash: sent?.hash ?? '',
    content: sent?.content ?? null,
    sample: sent?.sample ?? null,
  }
}

/**
 * The signal `clientGone` is aborted only when the client leaves before the reply has ended. Each abort creates an
 * exception with its stack, which not every request should pay for.
 */
function createSlotRequest(response: Response): SlotRequest & { clientGone: AbortSignal } {
  const gone = new AbortController()
  whenClosed(response, () => {
    if (!response.writableFinished) gone.abort()
  })
  const { organizationId, keyId, role } = requestLocals(response).caller
  const partnerKeyId = role === 'uploads' ? keyId : undefined
  return { organizationId, partnerKeyId, clientGone: gone.signal }
}

const ignoredKeys = ({ forSystemAdmins = [] }: BodyDescription<unknown>, { role }: Caller) =>
  role === 'system_admin' ? [] : forSystemAdmins

async function send(
  request: Request,
  response: Response,
  reply: Reply,
  { acquireLargeReply, deps }: RequestCall,
): Promise<void> {
  if ('data' in reply) {
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    await sendData(response, reply, deps.pacer, () =>
      acquireLargeReply().catch((error: unknown) => {
        // A refusal would say that nothing was done. A cut connection makes the client check.
        if (!isRead) request.socket.destroy()
        throw error
      }),
    )
  } else if ('nothing' in reply) response.status(204).end()
  else {
    const { status = 200, headers = {}, contentType, stream } = reply
    response.status(status).set(headers).type(contentType)
    if (request.method === 'HEAD') response.end()
    else
      await writePieces(response, stream, () => {
        if (contentType === 'text/event-stream') requestLocals(response).state.measureNow()
      })
  }
}

const uploadNotArrived =
  'the service is stopping and the file had not arrived; what came stays as an unfinished upload: resume it with Content-Range, or send the file again'

function refuseMethod(methods: readonly Endpoint[]): RequestHandler {
  const registered = methods.map((described) => described.method.toUpperCase())
  // Express answers HEAD wherever there is a GET.
  const allowed = [
    ...new Set(registered.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))),
  ].join(', ')
  return (request) => {
    throw methodRefusal(request, allowed)
  }
}
