import type { RequestHandler } from 'express'
import helmet from 'helmet'

type Directives = Record<string, string[]>

const denyAll: Directives = { 'default-src': ["'none'"], 'frame-ancestors': ["'none'"] }

/** The docs page needs its own files, and the styles that it sets on its elements. */
const docsDirectives: Directives = {
  'default-src': ["'none'"],
  'script-src': ["'self'"],
  'style-src': ["'self'", "'unsafe-inline'"],
  'img-src': ["'self'", 'data:'],
  'connect-src': ["'self'"],
  'base-uri': ["'none'"],
  'form-action': ["'none'"],
  'frame-ancestors': ["'none'"],
}

/**
 * The service is served over plain HTTP, so browsers must not be told to use only HTTPS (HSTS). The two others hold over
 * HTTPS alone: elsewhere Chromium reports them as errors of the page.
 */
const plainHttp = {
  strictTransportSecurity: false,
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
}

const withPolicy = (directives: Directives): RequestHandler =>
  helmet({
    contentSecurityPolicy: { useDefaults: false, directives },
    ...plainHttp,
  })

export const securityHeaders = withPolicy(denyAll)
export const docsSecurityHeaders = withPolicy(docsDirectives)

/** The headers of a page of text with one inline style, which sends no requests. */
export const pageSecurityHeaders = (styleSource: string): RequestHandler =>
  withPolicy({
    ...denyAll,
    'style-src': [styleSource],
    'base-uri': ["'none'"],
    'form-action': ["'none'"],
  })

/** The console has no inline script but its import map, and calls nothing but its own address. */
export const consoleSecurityHeaders = (importMapSource: string): RequestHandler =>
  helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        ...docsDirectives,
        'script-src': ["'self'", importMapSource],
        'style-src': ["'self'"],
      },
    },
    ...plainHttp,
    xFrameOptions: { action: 'deny' },
  })

/** Replies contain personal data, so no cache may store them. */
export const notCached: RequestHandler = (_request, response, next) => {
  response.set('Cache-Control', 'no-store')
  next()
}
