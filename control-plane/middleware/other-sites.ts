import type { Request, RequestHandler } from 'express'
import { RequestError } from '../../shared/contract/errors.ts'

export const otherSiteRefusal =
  "this POST was sent by a web page of another site (Origin or Sec-Fetch-Site says so): send it from this service's own address, or from a program that is no browser"

/**
 * Refuses a POST that a page of another site makes a browser send (CSRF). A browser that has once asked for the API key
 * adds it to each request to this address. A JSON body needs the service's consent to another origin first (CORS), which
 * it never gives; a POST without one needs no consent.
 */
export function refuseOtherSites(publicUrl: () => string): RequestHandler {
  return (request, _response, next) => {
    if (!needsConsent(request) && isFromOtherSite(request, publicUrl()))
      throw new RequestError('not_authorized', otherSiteRefusal, { status: 403 })
    next()
  }
}

/** Of the requests that are a POST: each with a body of a type that no HTML form can send. */
function needsConsent({ headers }: Request): boolean {
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  return hasBody && /^\s*application\/json\s*(?:;|$)/i.test(headers['content-type'] ?? '')
}

/**
 * Only a browser sends these headers, and a page can't set them. Behind a proxy that changes the host, Sec-Fetch-Site
 * alone knows the page as this service's own; whatever else it says, a foreign Origin is one.
 */
function isFromOtherSite({ headers, host }: Request, publicUrl: string): boolean {
  const site = headers['sec-fetch-site']
  if (site === 'cross-site') return true
  if (site === 'same-origin' || headers.origin === undefined) return false
  const origin = URL.parse(headers.origin)
  return (
    origin === null || (origin.origin !== new URL(publicUrl).origin && origin.host !== ownHost(origin, host))
  )
}

/** The host that the request was sent to, as the origin's scheme spells it: without the default port. */
const ownHost = ({ protocol }: URL, host: string | undefined): string | undefined =>
  URL.parse(`${protocol}//${host}`)?.host
