import type { RequestHandler } from 'express'
import helmet from 'helmet'

type Directives = Record<string, string[]>

const nothing: Directives = { 'default-src': ["'none'"], 'frame-ancestors': ["'none'"] }

/** What the page of the description needs: its own files, and the styles that it sets on its elements. */
const forDocs: Directives = {
  'default-src': ["'none'"],
  'script-src': ["'self'"],
  'style-src': ["'self'", "'unsafe-inline'"],
  'img-src': ["'self'", 'data:'],
  'connect-src': ["'self'"],
  'base-uri': ["'none'"],
  'form-action': ["'none'"],
  'frame-ancestors': ["'none'"],
}

/** Plain http is what it is served over: browsers must not be sent to https. */
const withPolicy = (directives: Directives): RequestHandler =>
  helmet({
    contentSecurityPolicy: { useDefaults: false, directives },
    strictTransportSecurity: false,
  })

export const securityHeaders = withPolicy(nothing)
export const securityHeadersOfDocs = withPolicy(forDocs)

/** Of a page that is text with one style, and sends nothing anywhere. */
export const securityHeadersOfPage = (styleSource: string): RequestHandler =>
  withPolicy({
    ...nothing,
    'style-src': [styleSource],
    'base-uri': ["'none'"],
    'form-action': ["'none'"],
  })

/** Replies hold personal data: no cache between here and the client keeps them. */
export const notCached: RequestHandler = (_request, response, next) => {
  response.set('Cache-Control', 'no-store')
  next()
}
