import compression from 'compression'
import type { RequestHandler } from 'express'

const minBytes = 4 * 1024

/**
 * Packs what is text, larger than a few packets, and asked for packed. Logs and events go out as they come: whoever
 * reads them reads along.
 */
export const compress = (): RequestHandler =>
  compression({
    threshold: minBytes,
    level: 4,
    filter: (_request, response) =>
      /json|javascript|css|html/.test(String(response.getHeader('Content-Type'))),
  })
