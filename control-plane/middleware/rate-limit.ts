import type { RequestHandler, Response } from 'express'
import { rateLimit, type AugmentedRequest } from 'express-rate-limit'
import { clock } from '../../shared/runtime/clock.ts'
import { RequestError } from '../api/request-error.ts'
import { requestLocals } from '../api/request-locals.ts'

/**
 * Limits the requests of one API key in a minute; each process counts for itself. It comes after the credential check,
 * because wrong credentials are counted by address already, and many keys may share one address. A limit of all processes
 * would be one more write to the database for each request.
 */
export function rateLimitByKey(requestsPerMinute: number): RequestHandler[] {
  if (requestsPerMinute === 0) return []
  return [
    rateLimit({
      windowMs: 60_000,
      limit: requestsPerMinute,
      standardHeaders: 'draft-8',
      legacyHeaders: false,
      identifier: 'requests',
      keyGenerator: (_request, response: Response) => String(requestLocals(response).caller.keyId),
      handler: (request, _response, next) => {
        const resetTime = (request as AugmentedRequest)['rateLimit']?.resetTime
        const waitMs = resetTime === undefined ? 60_000 : resetTime.getTime() - clock.now().getTime()
        const seconds = Math.max(1, Math.ceil(waitMs / 1000))
        next(
          new RequestError(
            'not_authorized',
            `more than ${requestsPerMinute} requests came with this API key within a minute: try again in ${seconds} s`,
            { status: 429, retryAfter: seconds },
          ),
        )
      },
    }),
  ]
}
