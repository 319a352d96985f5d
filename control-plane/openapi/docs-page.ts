import { createRequire } from 'node:module'
import path from 'node:path'
import express, { Router } from 'express'

const files = path.dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))

/** The browsable API description. All its files are served from here, so it works without the internet. */
export function docsPage(): Router {
  const router = Router()
  router.get('/swagger-initializer.js', (_request, response) => {
    response.type('application/javascript').send(initializer)
  })
  router.use(express.static(files, { index: 'index.html' }))
  return router
}

const initializer = `window.onload = () => {
  window.ui = SwaggerUIBundle({
    url: '../openapi.json',
    dom_id: '#swagger-ui',
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    layout: 'StandaloneLayout',
  })
}
`
