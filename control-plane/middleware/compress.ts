import compression from 'compression'
import type { RequestHandler } from 'express'

const minBytes = 4 * 1024

/**
 * Compresses text replies of more than a few packets for clients that accept it. Logs and event streams aren't
 * compressed, because their readers want each line at once.
 */
export const compress = (): RequestHandler =>
  compression({
    threshold: minBytes,
    level: 4,
    filter: (_request, response) =>
      /json|javascript|css|html/.test(String(response.getHeader('Content-Type'))),
  })
