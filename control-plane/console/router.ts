import { createStore } from './store.ts'

/** The address of the page that is shown. Links are followed without loading the document anew. */

const read = () => ({
  /** Below `/console/`, without its query. */
  path: decodeURI(location.pathname).replaceAll(/^\/console\/|\/$/g, ''),
  query: new URLSearchParams(location.search),
})

export const address = createStore(read())
/** Asked before a page is left; resolves to whether it may be. Null where nothing is lost. */
let mayLeave: (() => Promise<boolean>) | null = null

export function guardLeaving(ask: (() => Promise<boolean>) | null): void {
  mayLeave = ask
}

let shown = location.href

/** Asks where something would be lost. */
export async function canLeave(): Promise<boolean> {
  if (mayLeave !== null && !(await mayLeave())) return false
  mayLeave = null
  return true
}

/** Shows another page. */
export async function go(target: string, { isReplacing = false } = {}): Promise<void> {
  if (!(await canLeave())) return
  if (isReplacing) history.replaceState(null, '', target)
  else history.pushState(null, '', target)
  show()
  scrollTo(0, 0)
}

/** Writes filters into the address's query; a blank one is none. */
export function setQuery(changes: Record<string, string>): void {
  const query = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(changes))
    if (value === '') query.delete(name)
    else query.set(name, value)
  history.replaceState(null, '', `${location.pathname}${query.size === 0 ? '' : `?${query}`}`)
  show()
}

/** A filter of the address's query, as a field takes it. */
export const filter = (name: string) => ({
  value: address.value.query.get(name) ?? '',
  onPick: (value: string) => setQuery({ [name]: value }),
})

function show(): void {
  shown = location.href
  address.set(read())
}

addEventListener('popstate', () => {
  if (mayLeave === null) {
    show()
    return
  }
  const target = location.href
  history.pushState(null, '', shown)
  void go(target)
})

addEventListener('beforeunload', (event) => {
  if (mayLeave !== null) event.preventDefault()
})

document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey
  if (link === null || !isPlain || event.defaultPrevented) return
  if (link.origin !== location.origin || !link.pathname.startsWith('/console/') || link.hash !== '') return
  event.preventDefault()
  void go(link.href)
})
