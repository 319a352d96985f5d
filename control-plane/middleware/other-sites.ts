import type { Request, RequestHandler } from 'express'
import { RequestError } from '../api/request-error.ts'

export const otherSiteRefusal =
  "this POST was sent by a web page of another site (Origin or Sec-Fetch-Site says so): send it from this service's own address, or from a program other than a browser"

/**
 * Protects against CSRF: refuses a POST that a page of another site makes a browser send. A browser that has once asked
 * its user for the API key adds it to each request to this address. A JSON body needs a CORS preflight, which this
 * service never allows; a POST without one needs no preflight. Programs send neither header. Refusing every foreign
 * Origin would break proxies that add CORS headers, and close no further hole.
 */
export function refuseOtherSites(publicUrl: () => string): RequestHandler {
  return (request, _response, next) => {
    if (!needsPreflight(request) && isFromOtherSite(request, publicUrl()))
      throw new RequestError('not_authorized', otherSiteRefusal, { status: 403 })
    next()
  }
}

/** A POST needs a preflight when its body has a type that no HTML form can send. */
function needsPreflight({ headers }: Request): boolean {
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  return hasBody && /^\s*application\/json\s*(?:;|$)/i.test(headers['content-type'] ?? '')
}

/**
 * Only browsers send these headers, and pages can't set them. Behind a proxy that changes the host, only Sec-Fetch-Site
 * shows that a page is this service's own. For its other values the Origin decides.
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

/** The host that the request was sent to, without the default port of the origin's scheme. */
const ownHost = ({ protocol }: URL, host: string | undefined): string | undefined =>
  URL.parse(`${protocol}//${host}`)?.host
