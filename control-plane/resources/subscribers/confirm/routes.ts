import { setTimeout as sleep } from 'node:timers/promises'
import { Router, type ErrorRequestHandler, type Request, type Response } from 'express'
import { z } from 'zod'
import type { ZodOpenApiOperationObject } from 'zod-openapi'
import { clock } from '../../../../shared/runtime/clock.ts'
import { requireRead, RequestError } from '../../../api/request-error.ts'
import { canonicalIp } from '../../../../shared/values/ip.ts'
import { requestLocals } from '../../../api/request-locals.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { notCached, pageSecurityHeaders } from '../../../middleware/security-headers.ts'
import { confirm } from './service.ts'
import { pages, styleSource } from './view.ts'

/**
 * The page behind the link of a confirmation mail. It needs no credential. All links that add no subscriber have the same
 * page, byte for byte, so that it tells nothing about an address.
 */

export const confirmationPath = '/confirm/:token'

export function confirmationPage(deps: ControlPlane): Router {
  const router = Router()
  const headers = [pageSecurityHeaders(styleSource), notCached]
  router.use('/confirm', ...headers, async (request, response, next) => {
    // Not decoded: a token needs no decoding, and one that can't be decoded must get the same page as others.
    const token = /^\/([^/]+)\/?$/.exec(request.path)?.[1]
    if (token === undefined) {
      next()
      return
    }
    requestLocals(response).state.route = confirmationPath
    response.set('X-Robots-Tag', 'noindex')
    requireRead(request)
    response.type('html')
    if (request.method === 'GET') await answerVisit(deps, token, request, response)
    // It changes nothing, and must not tell what a visit would find.
    else response.send(pages.nothingToDo)
  })
  router.use('/confirm', sendFault)
  return router
}

async function answerVisit(
  deps: ControlPlane,
  token: string,
  request: Request,
  response: Response,
): Promise<void> {
  const startedAt = clock.monotonicMs()
  if (await confirm(deps, { token, ip: visitorIp(request) })) {
    response.send(pages.confirmed)
    return
  }
  await sleep(Math.max(0, nothingToDoMs - (clock.monotonicMs() - startedAt)))
  response.send(pages.nothingToDo)
}

/**
 * Each visit that adds no subscriber takes this time. An unknown token needs one read, a taken address a transaction: the
 * time of the reply would tell them apart (medians of 5 and 30 ms).
 */
const nothingToDoMs = 100

/** The address that a trusted proxy names; null where that isn't an address. */
const visitorIp = (request: Request): string | null => canonicalIp((request.ip ?? '').replace(/^::ffff:/, ''))

/** A visitor with a browser is told of a fault by a page too. */
const sendFault: ErrorRequestHandler = (error: unknown, request, response, next) => {
  if (request.method !== 'GET' || (error instanceof RequestError && error.status < 500)) {
    next(error)
    return
  }
  const { state } = requestLocals(response)
  state.log.error({ err: error }, 'a confirmation could not be answered')
  state.errorCode = 'internal_error'
  response.status(503).set('Retry-After', '60').send(pages.later)
}

const html = (description: string, example: string) => ({
  description,
  content: { 'text/html': { schema: z.string(), example } },
})

/** The visit as the description of the API has it: it is no endpoint of the API. */
export const confirmationVisit: ZodOpenApiOperationObject = {
  operationId: 'confirmSubscription',
  summary: 'Adds the subscriber that follows the link in its confirmation mail',
  tags: ['Confirmation forms'],
  description:
    "The address in the mail, below `PUBLIC_URL`; it needs no credential. The first visit within 7 days adds the subscriber, with the visit's time and address, confirmed where the list has that field, and queues the autoresponders that the request asked for. A link that was used, has expired or never was, one whose address is on the list by now, and one for which the subscriber limit is reached all show one page with status 200 and change nothing. `HEAD` changes nothing either.",
  security: [],
  requestParams: { path: z.object({ token: z.string().describe('from the mail') }) },
  responses: {
    '200': html('A page that says whether the subscription is confirmed', pages.confirmed),
    '405': { description: 'Another method than GET or HEAD' },
    '503': html('A page that asks to try again later: the database is out of reach', pages.later),
  },
}
