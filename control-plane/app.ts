import express, { type Express } from 'express'
import type { Registry } from 'prom-client'
import { answerOperations, operationsPaths } from '../shared/runtime/service.ts'
import { readinessProblem } from '../shared/runtime/start-database.ts'
import { errorHandler, notAnEndpoint } from './api/envelope.ts'
import { localsOf } from './api/request-locals.ts'
import { apiRouter } from './api/router.ts'
import type { ControlPlane } from './control-plane.ts'
import { docsPage } from './openapi/docs-page.ts'
import { basePath, openApiDocument } from './openapi/openapi.ts'
import { endpoints } from './endpoints.ts'
import { compress } from './middleware/compress.ts'
import { requestLog } from './middleware/request-log.ts'
import { notCached, securityHeaders, securityHeadersOfDocs } from './middleware/security-headers.ts'
import { confirmationPage } from './resources/subscribers/confirm/routes.ts'

/** The HTTP application, in the order in which a request goes through it. It never listens. */
export function createApp(deps: ControlPlane, registry: Registry): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', 'simple')
  app.set('trust proxy', deps.settings.TRUSTED_PROXIES)

  app.use(requestLog(deps.log, registry))
  app.use(securityHeaders)
  app.use(compress())
  app.get(operationsPaths, async (request, response) => {
    localsOf(response).state.leaveOut()
    const { status, type, body } = await answerOperations(request.path, {
      registry,
      unreadyBecause: readinessProblem(deps.database, deps.folder),
    })
    response.status(status).set({ 'Content-Type': type, 'Cache-Control': 'no-store' }).send(body)
  })
  // Made when somebody asks: it would be a sixth of the start. All replies send the same bytes: whoever reads none of
  // them takes no memory, and needs no key.
  let description: Buffer | undefined
  app.get('/openapi.json', (_request, response) => {
    description ??= Buffer.from(JSON.stringify(openApiDocument(endpoints, deps.publicUrl())))
    localsOf(response).state.route = '/openapi.json'
    response.type('application/json').send(description)
  })
  app.use('/docs', (_request, response, next) => {
    localsOf(response).state.route = '/docs'
    next()
  })
  app.use('/docs', securityHeadersOfDocs, docsPage())
  app.use(confirmationPage(deps))
  app.use(basePath, notCached, apiRouter(endpoints, deps))
  app.use(notAnEndpoint)
  app.use(errorHandler)
  return app
}
