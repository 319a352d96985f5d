import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import type { FullMailingListView } from '../resources/mailing-lists/view.ts'
import { call, messageOf, useRows } from './api.ts'
import { Dialog } from './dialog.ts'
import { number, time } from './format.ts'
import { StateMark } from './import-state.ts'
import { Check, Field, onSubmit, Page, isTicked, valueOf } from './page.ts'
import { address, go, setQuery } from './router.ts'
import { may, readsImports } from './session.ts'
import { usePageStore } from './store.ts'
import { listing, type Column } from './table.ts'

/** The organization's mailing lists. */
export function Lists(): VNode {
  const search = address.value.query.get('search') ?? ''
  const lists = useRows<FullMailingListView>(
    `/mailing_lists?view=full&per_page=200&search=${encodeURIComponent(search)}`,
  )
  const store = usePageStore(() => ({ isCreating: false }))
  const newList =
    may('mailing_list', 'create') &&
    html`<button type="button" class="primary" onClick=${() => store.set({ isCreating: true })}>New list</button>`
  const empty =
    search === ''
      ? 'There is no mailing list yet. Make one with “New list”, then import a file into it.'
      : `No list has “${search}” in its name.`
  return html`<${Page} title="Mailing lists" actions=${newList}>
    <${SearchField} value=${search} />
    ${listing(lists, { label: 'Mailing lists', empty, columns, rowKey: ({ id }) => id })}
    ${store.value.isCreating && html`<${NewList} onClose=${() => store.set({ isCreating: false })} />`}
  <//>`
}

const counts = (
  name: string,
  count: (counts: FullMailingListView['counts']) => number,
): Column<FullMailingListView> => ({
  ...{ name, isNumber: true, sort: (list) => count(list.counts) },
  cell: (list) => number(count(list.counts)),
})

const columns: Column<FullMailingListView>[] = [
  {
    ...{ name: 'Name', sort: ({ name }) => name },
    cell: ({ id, name, is_remote_list: isRemote }) =>
      html`<a href=${`/console/lists/${id}`}>${name}</a>${isRemote && html` <span class="tag">Remote List</span>`}`,
  },
  counts('Active', ({ active }) => active),
  counts('Unsubscribed', ({ unsubscribed }) => unsubscribed),
  counts('Bounced', ({ bounced }) => bounced),
  counts('All', (all) => Object.values(all).reduce((sum, count) => sum + count, 0)),
  {
    ...{ name: 'Last import', sort: ({ last_import: last }) => last?.created_at ?? null },
    cell({ last_import: last }) {
      if (last === null) return '–'
      const when = time(last.finished_at ?? last.created_at)
      return html`<span class="together">
        <${StateMark} state=${last.state} /> ${readsImports() ? html`<a href=${`/console/imports/${last.id}`}>${when}</a>` : when}
      </span>`
    },
  },
]

const searchDelayMs = 250

/** A filter of the address, written there when the typing pauses. */
function SearchField({ value }: { value: string }): VNode {
  const timer = useRef(0)
  const search = (event: Event) => {
    clearTimeout(timer.current)
    timer.current = window.setTimeout(() => setQuery({ search: valueOf(event).trim() }), searchDelayMs)
  }
  return html`<div class="filters"><${Field} label="Search" type="search" value=${value} onInput=${search} /></div>`
}

/** Makes a list, and shows it. */
function NewList({ onClose }: { onClose: () => void }): VNode {
  const store = usePageStore(() => ({
    list: { name: '', has_format: false, has_confirmed: false },
    ...{ isBusy: false, fault: null as string | null },
  }))
  const { list, fault, isBusy } = store.value
  const change = (changed: Partial<typeof list>) => store.set({ list: { ...list, ...changed } })
  const create = async () => {
    store.set({ isBusy: true, fault: null })
    try {
      const { id } = await call<{ id: number }>('POST', '/mailing_lists', { mailing_list: list })
      onClose()
      await go(`/console/lists/${id}`)
    } catch (error) {
      store.set({ isBusy: false, fault: messageOf(error) })
    }
  }
  return html`<${Dialog} name="New list" onClose=${onClose}>
    <form onSubmit=${onSubmit(() => void create())}>
      <${Field} label="Name" value=${list.name} fault=${fault} onInput=${(event: Event) => change({ name: valueOf(event) })} />
      <${Check} label="Email format" onChange=${(event: Event) => change({ has_format: isTicked(event) })} />
      <p class="hint sub">Each subscriber chooses HTML, text or both.</p>
      <${Check} label="Confirmed" onChange=${(event: Event) => change({ has_confirmed: isTicked(event) })} />
      <p class="hint sub">Each subscriber has a mark that the address was confirmed, and when.</p>
      <div class="buttons">
        <button type="button" onClick=${onClose}>Close</button>
        <button class="primary" disabled=${isBusy}>Create list</button>
      </div>
    </form>
  <//>`
}
