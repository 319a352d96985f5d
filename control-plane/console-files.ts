import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import path from 'node:path'
import { Router, type Request, type Response } from 'express'
import { consoleSecurityHeaders } from './middleware/security-headers.ts'

/**
 * Serves the console: the page, its files of `console/` and those of the packages that it needs. There is no build step:
 * types are stripped once, when a file is first asked for.
 */

const folder = path.join(import.meta.dirname, 'console')
const { resolve } = createRequire(import.meta.url)
const packageFile = (name: string, file: string) => path.join(path.dirname(resolve(name)), file)

/** What the console's modules import from packages, and the file that is served for it. */
const packages: Record<string, string> = {
  preact: packageFile('preact', 'preact.mjs'),
  'preact/hooks': packageFile('preact/hooks', 'hooks.mjs'),
  htm: packageFile('htm', 'htm.mjs'),
  'htm/preact': packageFile('htm/preact', 'index.mjs'),
  uplot: packageFile('uplot', 'uPlot.esm.js'),
  'csv-parse/browser/esm/sync': packageFile('csv-parse/browser/esm/sync', 'sync.js'),
}
const plotStyles = packageFile('uplot', 'uPlot.min.css')

/** Modules that the console shares with the service: they import no others, and nothing of Node.js. */
const shared = [
  'contract/import-state.ts',
  ...['boolean-text', 'identity', 'normalized-text', 'subscriber-status'].map((name) => `values/${name}.ts`),
]

const address = (name: string): string => `packages/${name.replaceAll('/', '-')}.js`
const importMap = JSON.stringify({
  imports: {
    ...Object.fromEntries(Object.keys(packages).map((name) => [name, `/console/${address(name)}`])),
    '/shared/': '/console/shared/',
  },
})

const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>Rollcall</title>
    <link rel="icon" href="/console/icon.svg">
    <link rel="stylesheet" href="/console/uplot.css">
    <link rel="stylesheet" href="/console/styles.css">
    <script type="importmap">${importMap}</script>
    <script type="module" src="/console/app.ts"></script>
  </head>
  <body>
    <noscript>The console needs JavaScript.</noscript>
    <div id="app"></div>
  </body>
</html>
`

interface ServedFile {
  type: string
  content: () => string
}

const served = (type: string, file: string): ServedFile => ({ type, content: () => read(file) })
/** A file of ours, as a browser takes it. */
const source = (file: string): ServedFile => ({
  type: types[path.extname(file)]!,
  content: () => (file.endsWith('.ts') ? withoutTypes(read(file)) : read(file)),
})
const read = (file: string): string => readFileSync(file, 'utf8')

const types: Record<string, string> = {
  '.ts': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}

/** By their address below `/console/`; the page has the empty one. */
const files = new Map([
  ['', { type: 'text/html', content: () => page }],
  ['uplot.css', served('text/css', plotStyles)],
  ...Object.entries(packages).map(
    ([name, file]) => [address(name), served('text/javascript', file)] as const,
  ),
  ...shared.map((name) => [`shared/${name}`, source(path.join(folder, '../../shared', name))] as const),
  ...readdirSync(folder)
    .filter((name) => path.extname(name) in types)
    .map((name) => [name, source(path.join(folder, name))] as const),
])

interface MadeFile {
  type: string
  content: string
  tag: string
}

const made = new Map<string, MadeFile>()

function madeFile(name: string, file: ServedFile): MadeFile {
  let found = made.get(name)
  if (found === undefined) {
    const content = file.content()
    found = { type: file.type, content, tag: `W/"${digest(content)}"` }
    made.set(name, found)
  }
  return found
}

/** Node.js warns once that the function is new, on standard error, where the log is. Its version is fixed here. */
function withoutTypes(source: string): string {
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(source)
  } finally {
    process.emitWarning = emitWarning
  }
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64')

/** Every address without a file's ending is a page of the console, which finds out whether there is such a page. */
export function consolePage(): Router {
  const router = Router()
  router.use(consoleSecurityHeaders(`'sha256-${digest(importMap)}'`))
  router.get('/{*path}', (request, response, next) => {
    const name = request.path.slice(1)
    const shown = /\.\w+$|^packages\//.test(name) ? name : ''
    const file = files.get(shown)
    if (file === undefined) next()
    else if (/^[^?]*\/console\//.test(request.originalUrl)) sendFile(request, response, madeFile(shown, file))
    else response.redirect(302, '/console/')
  })
  return router
}

function sendFile(request: Request, response: Response, { type, content, tag }: MadeFile): void {
  response.set({ ETag: tag, 'Cache-Control': 'no-cache' }).type(type)
  // `request.fresh` is false for who reloads, whose copy is as good.
  if (request.get('if-none-match')?.includes(tag) === true) response.status(304).end()
  else response.send(content)
}
