import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Router, type ErrorRequestHandler, type Request, type Response } from 'express'
import { z } from 'zod'
import type { ZodOpenApiOperationObject } from 'zod-openapi'
import { clock } from '../../../shared/runtime/clock.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import { canonicalIp } from '../../../shared/values/ip.ts'
import { localsOf } from '../../api/request-locals.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { notCached, securityHeadersOfPage } from '../../middleware/security-headers.ts'
import { confirm } from './confirmation-visit.ts'

/**
 * What somebody sees who follows the link in his confirmation mail: a page for people, without a credential. Whatever
 * a link is that adds nobody, its page is the same, byte for byte, so that it tells nothing about an address.
 */

export const confirmationPath = '/confirm/:token'

export function confirmationPage(deps: ControlPlane): Router {
  const router = Router()
  const headers = [securityHeadersOfPage(styleSource), notCached]
  router.use('/confirm', ...headers, async (request, response, next) => {
    // As sent, since a token needs no decoding and one that can't be decoded is unknown like others.
    const token = /^\/([^/]+)\/?$/.exec(request.path)?.[1]
    if (token === undefined) {
      next()
      return
    }
    localsOf(response).state.route = confirmationPath
    response.set('X-Robots-Tag', 'noindex').type('html')
    if (request.method === 'GET') await answerVisit(deps, token, request, response)
    // It changes nothing, and what a visit would find isn't told before it.
    else if (request.method === 'HEAD') response.send(pages.nothingToDo)
    else throw notPossible(request.method)
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
  if (await confirm(deps, { token, ip: addressOf(request) })) {
    response.send(pages.confirmed)
    return
  }
  await sleep(Math.max(0, nothingToDoMs - (clock.monotonicMs() - startedAt)))
  response.send(pages.nothingToDo)
}

/**
 * An unknown link is known for one after a read, one that finds the address taken after a transaction: the time tells
 * them apart no more than the page does.
 */
const nothingToDoMs = 100

/** The visitor's, as a trusted proxy says it; null where that says nonsense. */
const addressOf = (request: Request): string | null => canonicalIp((request.ip ?? '').replace(/^::ffff:/, ''))

const notPossible = (method: string): RequestError =>
  new RequestError('invalid_request', `${method} is not possible here, only GET, HEAD`, {
    status: 405,
    headers: { Allow: 'GET, HEAD' },
  })

/** Who visits with a browser is told of a fault in a page too. */
const sendFault: ErrorRequestHandler = (error: unknown, request, response, next) => {
  if (request.method !== 'GET' || (error instanceof RequestError && error.status < 500)) {
    next(error)
    return
  }
  const { state } = localsOf(response)
  state.log.error({ err: error }, 'a confirmation could not be answered')
  state.errorCode = 'internal_error'
  response.status(503).set('Retry-After', '60').send(pages.later)
}

const style = `
  :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }
  body { max-width: 34rem; margin: 20vh auto 0; padding: 0 1.5rem; }
`
const styleSource = `'sha256-${createHash('sha256').update(style).digest('base64')}'`

const page = (title: string, text: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${text}</p>
</main>
</body>
</html>
`

const pages = {
  confirmed: page('Your subscription is confirmed', 'Thank you. You can close this page.'),
  nothingToDo: page(
    'There is nothing more to do',
    'This link was used already, or it is no longer valid. If you expect mail from us and get none, please subscribe again.',
  ),
  later: page(
    'Please try again later',
    'Your confirmation can’t be taken just now. Please follow the link in your mail again in a few minutes.',
  ),
}

const html = (description: string, example: string) => ({
  description,
  content: { 'text/html': { schema: z.string(), example } },
})

/** The visit in the description of the API, which it is no endpoint of. */
export const confirmationVisit: ZodOpenApiOperationObject = {
  operationId: 'confirmSubscription',
  summary: 'Adds who follows the link in a confirmation mail',
  tags: ['Confirmation forms'],
  description:
    "The address in the mail, below `PUBLIC_URL`; it needs no credential. The first visit within 7 days adds the subscriber, with the visit's time and address, confirmed where the list has that field, and queues the autoresponders that the request asked for. A link that was used, has expired or never was, one whose address is on the list by now, and one for which the subscriber limit leaves no place all show one page with status 200 and change nothing. `HEAD` changes nothing either.",
  security: [],
  requestParams: { path: z.object({ token: z.string().describe('from the mail') }) },
  responses: {
    '200': html('A page that says whether the subscription is confirmed', pages.confirmed),
    '405': { description: 'Another method than GET or HEAD' },
    '503': html('A page that asks to try again later: the database is out of reach', pages.later),
  },
}
