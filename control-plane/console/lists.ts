import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import type { FullMailingListView } from '../resources/mailing-lists/view.ts'
import { call, messageOf, useRows } from './api.ts'
import { Dialog } from './dialog.ts'
import { number, time } from './format.ts'
import { StateMark } from './import-state.ts'
import { Check, Empty, Fault, Field, Loading, onSubmit, Page, isTicked, valueOf } from './page.ts'
import { address, go, setQuery } from './router.ts'
import { may, readsImports } from './session.ts'
import { usePageStore } from './store.ts'
import { Table, type Column } from './table.ts'

/** The organization's mailing lists. */
export function Lists(): VNode {
  const search = address.value.query.get('search') ?? ''
  const { data, error, more } = useRows<FullMailingListView>(
    `/mailing_lists?view=full&per_page=200&search=${encodeURIComponent(search)}`,
  )
  const store = usePageStore(() => ({ isCreating: false }))
  const close = () => store.set({ isCreating: false })
  const newList =
    may('mailing_list', 'create') &&
    html`<button type="button" class="primary" onClick=${() => store.set({ isCreating: true })}>
      New list
    </button>`
  return html`<${Page} title="Mailing lists" actions=${newList}>
    <${SearchField} value=${search} />
    <${Fault} text=${error} />
    ${
      data === null
        ? error === null && html`<${Loading} what="lists" />`
        : data.length === 0
          ? html`<${Empty}>
              ${
                search === ''
                  ? html`<p>There is no mailing list yet. Make one, then import a file into it.</p>
                      ${newList}`
                  : html`<p>No list has “${search}” in its name.</p>`
              }
            <//>`
          : html`<${Table}
              label="Mailing lists"
              ...${{ columns, more }}
              rows=${data}
              rowKey=${(list: FullMailingListView) => list.id}
            />`
    }
    ${store.value.isCreating && html`<${NewList} onClose=${close} />`}
  <//>`
}

const all = ({ counts }: FullMailingListView): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0)

const countColumn = (
  name: string,
  count: (list: FullMailingListView) => number,
): Column<FullMailingListView> => ({
  ...{ name, sort: count, isNumber: true, cell: (list) => number(count(list)) },
})

const columns: Column<FullMailingListView>[] = [
  {
    name: 'Name',
    sort: ({ name }) => name,
    cell: ({ id, name, is_remote_list: isRemote }) =>
      html`<a href=${`/console/lists/${id}`}>${name}</a
        >${isRemote ? html` <span class="tag">Remote List</span>` : ''}`,
  },
  countColumn('Active', ({ counts }) => counts.active),
  countColumn('Unsubscribed', ({ counts }) => counts.unsubscribed),
  countColumn('Bounced', ({ counts }) => counts.bounced),
  countColumn('All', all),
  {
    name: 'Last import',
    sort: ({ last_import: last }) => last?.created_at ?? null,
    cell: ({ last_import: last }) => (last === null ? '–' : html`<${LastImport} ...${last} />`),
  },
]

function LastImport({
  id,
  state,
  created_at,
  finished_at,
}: NonNullable<FullMailingListView['last_import']>): VNode {
  const when = time(finished_at ?? created_at)
  return html`<span class="together">
    <${StateMark} state=${state} /> ${readsImports() ? html`<a href=${`/console/imports/${id}`}>${when}</a>` : when}
  </span>`
}

const searchDelayMs = 250

/** A filter of the address, written there when the typing pauses. */
export function SearchField({ value }: { value: string }): VNode {
  const timer = useRef(0)
  const search = (event: Event) => {
    clearTimeout(timer.current)
    timer.current = window.setTimeout(() => setQuery({ search: valueOf(event).trim() }), searchDelayMs)
  }
  return html`<div class="filters">
    <${Field} label="Search" type="search" value=${value} onInput=${search} />
  </div>`
}

/** Makes a list, and shows it. */
function NewList({ onClose }: { onClose: () => void }): VNode {
  const store = usePageStore(() => ({
    ...{ name: '', hasFormat: false, hasConfirmed: false, isBusy: false },
    fault: null as string | null,
  }))
  const { name, hasFormat, hasConfirmed, fault, isBusy } = store.value
  const create = async () => {
    store.set({ isBusy: true, fault: null })
    try {
      const { id } = await call<{ id: number }>('POST', '/mailing_lists', {
        mailing_list: { name, has_format: hasFormat, has_confirmed: hasConfirmed },
      })
      onClose()
      await go(`/console/lists/${id}`)
    } catch (error) {
      store.set({ isBusy: false, fault: messageOf(error) })
    }
  }
  return html`<${Dialog} name="New list" onClose=${onClose}>
    <form onSubmit=${onSubmit(() => void create())}>
      <${Field}
        label="Name"
        value=${name}
        fault=${fault}
        onInput=${(event: Event) => store.set({ name: valueOf(event) })}
      />
      <${Check}
        label="Email format"
        checked=${hasFormat}
        onChange=${(event: Event) => store.set({ hasFormat: isTicked(event) })}
      />
      <p class="hint">Each subscriber chooses HTML, text or both.</p>
      <${Check}
        label="Confirmed"
        checked=${hasConfirmed}
        onChange=${(event: Event) => store.set({ hasConfirmed: isTicked(event) })}
      />
      <p class="hint">Each subscriber has a mark that the address was confirmed, and when.</p>
      <div class="buttons">
        <button type="button" onClick=${onClose}>Close</button>
        <button class="primary" disabled=${isBusy}>Create list</button>
      </div>
    </form>
  <//>`
}
