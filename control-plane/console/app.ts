import { html, render } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { connection } from './api.ts'
import { Audit } from './audit.ts'
import { AskedQuestion } from './dialog.ts'
import { FindPerson, People } from './people.ts'
import { Import } from './import.ts'
import { ImportForm } from './import-form.ts'
import { Imports } from './imports.ts'
import { Keys } from './keys.ts'
import { List } from './list.ts'
import { Lists } from './lists.ts'
import { Page } from './page.ts'
import { address, canLeave, go } from './router.ts'
import { isAdmin, isUploader, may, readsImports, session, signOut } from './session.ts'
import { SignIn, start } from './sign-in.ts'
import { useStore } from './store.ts'
import { Uploads } from './uploads.ts'

/**
 * The console: a document whose pages are components.
 *
 * How a page is written
 * - A page is a component in a file of its name, and a line in `pages` below. It gets `ids`, the numbers of its address,
 *   and renders `Page` (page.ts), which has the `h1`, the title and the focus.
 * - It reads by `useLoad` or `useRows` (api.ts), which read again when one of their inputs changes, and writes by `call`,
 *   in an action of `useAction`. What a person enters is in the page's store (`usePageStore`), filters in the address.
 * - `table`, `FormDialog`, `ask`, `Field`, `Check`, `Fault` and `Loading` are the parts. Texts go into templates as
 *   values, so nothing that the API says is read as HTML.
 * - What the key may not do isn't offered: `may('subscriber', 'import')`, `isAdmin()` (session.ts).
 */

export interface PageProps {
  ids: number[]
}

type Route = [pattern: RegExp, name: string, page: (props: PageProps) => VNode, maySee: () => boolean]

const seesLists = () => !isUploader()
const mayImport = () => may('subscriber', 'import')

const pages: Route[] = [
  [/^lists$/, 'Lists', Lists, seesLists],
  [/^imports$/, 'Imports', Imports, readsImports],
  [/^uploads$/, 'Uploads', Uploads, () => isUploader() || mayImport()],
  [/^keys$/, 'Keys and users', Keys, isAdmin],
  [/^audit$/, 'Audit', Audit, isAdmin],
]
/** Those that aren't in the menu. */
const furtherPages: Route[] = [
  [/^lists\/(\d+)$/, 'List', List, seesLists],
  [/^lists\/(\d+)\/import$/, 'Import a file', ImportForm, mayImport],
  [/^imports\/(\d+)$/, 'Import', Import, readsImports],
  [/^people$/, 'Find a person', People, () => may('subscriber', 'read')],
]

function App() {
  const { isAsking, who } = useStore(session)
  const { isLost } = useStore(connection)
  return html`
    ${
      isLost &&
      html`<p class="banner" role="alert">
        The service can’t be reached. What is shown may be old; it is asked again every 2 seconds.
      </p>`
    }
    ${isAsking && html`<p class="loading" role="status">Looking for your session…</p>`}
    ${who !== null && html`<${Frame} />`} ${!isAsking && who === null && html`<${SignIn} />`}
    <${AskedQuestion} />
  `
}

function Frame() {
  const { path } = useStore(address)
  useEffect(() => {
    if (path === '') void go(isUploader() ? '/console/uploads' : '/console/lists', { isReplacing: true })
  }, [path])
  return html`<div class="frame">
    <a class="skip" href="#main">Skip to the page</a>
    <header>
      <a class="brand" href="/console/"><img src="/console/icon.svg" alt="" /> Rollcall</a>
      ${may('subscriber', 'read') && html`<${FindPerson} />`}
      <${Menu} path=${path} />
    </header>
    <div id="main"><${CurrentPage} path=${path} /></div>
  </div>`
}

function Menu({ path }: { path: string }) {
  const { who } = session.value
  const [section] = path.split('/')
  return html`<nav aria-label="Console">
    <ul>
      ${pages
        .filter(([, , , maySee]) => maySee())
        .map(([pattern, name]) => {
          const target = pattern.source.slice(1, -1)
          const current = target === section ? 'page' : null
          return html`<li key=${name}><a href=${`/console/${target}`} aria-current=${current}>${name}</a></li>`
        })}
    </ul>
    <div class="who">
      <p><strong>${who?.api_key.name}</strong></p>
      <p>${who?.organization.name}</p>
      <p class="hint">Times in ${who?.organization.time_zone_name}</p>
      <button type="button" onClick=${() => void canLeave().then((isAllowed) => isAllowed && signOut())}>Sign out</button>
    </div>
  </nav>`
}

function CurrentPage({ path }: { path: string }) {
  if (path === '') return null
  const [pattern, name, page, maySee] = [...pages, ...furtherPages].find(([known]) => known.test(path)) ?? []
  if (pattern === undefined)
    return html`<${Page} key=${path} title="There is no such page">
      <p>The address may be mistyped. <a href="/console/">Go to the first page</a>.</p>
    <//>`
  if (maySee?.() !== true)
    return html`<${Page} key=${path} title=${name}>
      <p>This page is not for your key: its role or permissions don’t allow it.</p>
    <//>`
  return html`<${page} key=${path} ids=${pattern.exec(path)?.slice(1).map(Number)} />`
}

render(html`<${App} />`, document.getElementById('app')!)
void start()
