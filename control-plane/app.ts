import express, { type Express } from 'express'
import type { Registry } from 'prom-client'
import { versionWithCommit } from '../shared/runtime/package-version.ts'
import { answerOperations, operationsPaths } from '../shared/runtime/service.ts'
import { readinessProblem } from '../shared/runtime/start-database.ts'
import { errorHandler, notAnEndpoint } from './api/envelope.ts'
import { requireRead } from './api/request-error.ts'
import { requestLocals } from './api/request-locals.ts'
import { apiRouter } from './api/router.ts'
import { basePath } from './api/scope.ts'
import { consolePage } from './console-files.ts'
import type { ControlPlane } from './control-plane.ts'
import { docsPage } from './openapi/docs-page.ts'
import { openApiDocument } from './openapi/openapi.ts'
import { endpoints } from './endpoints.ts'
import { compress } from './middleware/compress.ts'
import { requestLog } from './middleware/request-log.ts'
import { docsSecurityHeaders, notCached, securityHeaders } from './middleware/security-headers.ts'
import { confirmationPage } from './resources/subscribers/confirm/routes.ts'

/** Builds the HTTP application. A request passes its parts in the order in which they stand here. */
export function createApp(deps: ControlPlane, registry: Registry): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.enable('case sensitive routing')
  app.set('query parser', 'simple')
  app.set('trust proxy', deps.settings.TRUSTED_PROXIES)

  app.use(requestLog(deps.log, registry))
  app.use(securityHeaders)
  app.use(compress())
  app.all(
    ['/', ...operationsPaths, '/openapi.json', '/docs', '/console', '/console/{*path}'],
    (request, _response, next) => {
      requireRead(request)
      next()
    },
  )
  app.get(operationsPaths, async (request, response) => {
    requestLocals(response).state.excludeFromMetrics()
    const { status, type, body } = await answerOperations(request.path, {
      registry,
      unreadyBecause: readinessProblem(deps.database, deps.folder),
    })
    response.status(status).set({ 'Content-Type': type, 'Cache-Control': 'no-store' }).send(body)
  })
  const service = {
    name: 'Rollcall',
    version: versionWithCommit(),
    api: basePath,
    docs: '/docs',
    console: '/console',
    metrics: '/metrics',
  }
  app.get('/', (request, response) => {
    requestLocals(response).state.route = '/'
    response.set('Vary', 'Accept')
    if (request.get('accept')?.includes('text/html') === true) response.redirect(302, '/console/')
    else response.json({ ...service, ftp: deps.ftpUrl() })
  })
  // Made at the first request, since it takes a sixth of the start-up time. It is public, and all replies share one
  // buffer, so that clients that don't read cost no memory.
  let description: Buffer | undefined
  app.get('/openapi.json', (_request, response) => {
    description ??= Buffer.from(JSON.stringify(openApiDocument(endpoints)))
    requestLocals(response).state.route = '/openapi.json'
    response.type('application/json').send(description)
  })
  app.use('/docs', (_request, response, next) => {
    requestLocals(response).state.route = '/docs'
    next()
  })
  app.use('/docs', docsSecurityHeaders, docsPage())
  app.use('/console', (_request, response, next) => {
    requestLocals(response).state.route = '/console'
    next()
  })
  app.use('/console', consolePage())
  app.use(confirmationPage(deps))
  app.use(basePath, notCached, apiRouter(endpoints, deps))
  app.use(notAnEndpoint)
  app.use(errorHandler)
  return app
}
