import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import express, { Router } from 'express'
import { Marked, type MarkedExtension, type Tokens } from 'marked'

const swagger = path.dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
const folder = path.join(import.meta.dirname, '../../docs')

/** The pages of `docs/` that users of the API and partners need, in the order of the page's menu. */
const pages: Record<string, string> = {
  files: 'Files',
  uploads: 'Upload directories',
  urls: 'URLs',
  'following-imports': 'Following imports',
  partners: 'Partners',
  console: 'Console',
}

/**
 * The browsable API description, and beside it the pages that its users need. All files are served from here, so that it
 * works without the internet.
 */
export function docsPage(): Router {
  const router = Router()
  router.get('/', ({ originalUrl }, response) => {
    // The page's addresses are relative.
    if (!/^[^?]*\/(\?|$)/.test(originalUrl)) response.redirect(301, 'docs/')
    else response.type('html').send(shell('API', apiBody))
  })
  router.get('/docs.css', (_request, response) => {
    response.type('css').send(styles)
  })
  router.get('/swagger-initializer.js', (_request, response) => {
    response.type('application/javascript').send(initializer)
  })
  for (const [name, title] of Object.entries(pages))
    router.get(`/${name}`, async ({ path: requested }, response) => {
      if (requested.endsWith('/')) {
        response.redirect(301, `../${name}`)
        return
      }
      const text = await readFile(path.join(folder, `${name}.md`), 'utf8')
      response.type('html').send(shell(title, `<main class="page">${await markdown.parse(text)}</main>`))
    })
  router.use(express.static(swagger, { index: false }))
  return router
}

const menu = [['./', 'API'], ...Object.entries(pages).map(([name, title]) => [`./${name}`, title])]
  .map(([address = '', title = '']) => `<a href="${address}">${title}</a>`)
  .join('\n      ')

const shell = (title: string, body: string): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>${title} · Rollcall</title>
    <link rel="icon" href="./favicon-32x32.png">
    <link rel="stylesheet" href="./swagger-ui.css">
    <link rel="stylesheet" href="./docs.css">
  </head>
  <body>
    <nav aria-label="Documentation">
      <strong>Rollcall</strong>
      ${menu}
    </nav>
    ${body}
  </body>
</html>
`

const apiBody = `<div id="swagger-ui"></div>
    <script src="./swagger-ui-bundle.js"></script>
    <script src="./swagger-initializer.js"></script>`

const initializer = `window.ui = SwaggerUIBundle({
  url: '../openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: -1,
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
})
`

const styles = `body { margin: 0; background: #fff; color: #222; font: 16px/1.5 system-ui, sans-serif }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: .75rem 1.25rem; border-bottom: 1px solid #ddd }
nav a { color: #0b57d0 }
.page { max-width: 46rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; overflow-wrap: anywhere }
.page a { color: #0b57d0 }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
.page :is(code, pre) { background: #f3f3f3 }
pre, .table { overflow-x: auto }
.page pre { padding: .75rem }
table { border-collapse: collapse }
.page :is(th, td) { padding: .3rem .6rem; border: 1px solid #ccc; text-align: left; vertical-align: top }
@media (max-width: 640px) {
  .swagger-ui .opblock-tag { flex-wrap: wrap }
  .swagger-ui .opblock-tag > small { order: 1; flex: 1 0 100%; padding: 0 }
}
`

/**
 * Headings have the anchors that the pages' links name. A link to a page that isn't served is its text alone. What may be
 * wider than a phone scrolls in a box that the keyboard reaches.
 */
const extension: MarkedExtension = {
  renderer: {
    code({ text }: Tokens.Code): string {
      return `<pre tabindex="0"><code>${escaped(text)}</code></pre>\n`
    },
    table({ header, rows }: Tokens.Table): string {
      const row = (cells: Tokens.TableCell[], tag: string) =>
        `<tr>${cells.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`
      return `<div class="table" role="region" aria-label="Table" tabindex="0"><table><thead>${row(header, 'th')}</thead><tbody>${rows.map((cells) => row(cells, 'td')).join('')}</tbody></table></div>\n`
    },
    heading({ tokens, depth, text }: Tokens.Heading): string {
      const anchor = text
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-')
      return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}</h${depth}>\n`
    },
    link({ href, tokens }: Tokens.Link): string {
      const text = this.parser.parseInline(tokens)
      const [, name = '', anchor = ''] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? []
      if (name in pages) return `<a href="./${name}${anchor}">${text}</a>`
      return /^(#|https:)/.test(href) ? `<a href="${href}">${text}</a>` : text
    },
  },
}
const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const markdown = new Marked(extension)
