import { useRef, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { FullMailingListView } from '../resources/mailing-lists/view.ts'
import { call, useAction, useRows } from './api.ts'
import { StateMark } from './counts.ts'
import { FormDialog } from './dialog.ts'
import { number, time } from './format.ts'
import { Check, Field, Page } from './page.ts'
import { filter, go } from './router.ts'
import { may, readsImports } from './session.ts'
import { table, type Column } from './table.ts'

const searchDelayMs = 250

/** The organization's mailing lists. */
export function Lists() {
  const { value, onPick } = filter('search')
  const lists = useRows<FullMailingListView>(
    `/mailing_lists?view=full&per_page=200&search=${encodeURIComponent(value)}`,
  )
  const [isCreating, setCreating] = useState(false)
  // The address gets it when the typing pauses.
  const timer = useRef(0)
  const search = (typed: string) => {
    clearTimeout(timer.current)
    timer.current = window.setTimeout(() => onPick(typed.trim()), searchDelayMs)
  }
  const newList = html`<button type="button" class="primary" onClick=${() => setCreating(true)}>New list</button>`
  const empty =
    value === ''
      ? 'There is no mailing list yet. Make one with “New list”, then import a file into it.'
      : `No list has “${value}” in its name.`
  return html`<${Page} title="Mailing lists" actions=${may('mailing_list', 'create') && newList}>
    <div class="filters"><${Field} label="Search" type="search" value=${value} onPick=${search} /></div>
    ${table({ ...lists, label: 'Mailing lists', empty, columns, rowKey: ({ id }) => id })}
    ${isCreating && html`<${NewList} onClose=${() => setCreating(false)} />`}
  <//>`
}

type Counts = FullMailingListView['counts']

const counts = (name: string, count: (counts: Counts) => number): Column<FullMailingListView> => ({
  name,
  isNumber: true,
  sort: (list) => count(list.counts),
  cell: (list) => number(count(list.counts)),
})

const columns: Column<FullMailingListView>[] = [
  {
    name: 'Name',
    sort: ({ name }) => name,
    cell: ({ id, name, is_remote_list: isRemote }) =>
      html`<a href=${`/console/lists/${id}`}>${name}</a>${isRemote && html` <span class="tag">Remote List</span>`}`,
  },
  counts('Active', ({ active }) => active),
  counts('Unsubscribed', ({ unsubscribed }) => unsubscribed),
  counts('Bounced', ({ bounced }) => bounced),
  counts('All', (all) => Object.values(all).reduce((sum, count) => sum + count, 0)),
  { name: 'Last import', sort: ({ last_import: last }) => last?.created_at ?? null, cell: lastImport },
]

function lastImport({ last_import: last }: FullMailingListView) {
  if (last === null) return '–'
  const ended = time(last.finished_at ?? last.created_at)
  return html`<span class="together">
    <${StateMark} state=${last.state} /> ${readsImports() ? html`<a href=${`/console/imports/${last.id}`}>${ended}</a>` : ended}
  </span>`
}

/** Makes a list, and shows it. */
function NewList({ onClose }: { onClose: () => void }) {
  const [list, setList] = useState({ name: '', has_format: false, has_confirmed: false })
  const { isBusy, fault, run } = useAction()
  const change = (changed: Partial<typeof list>) => setList({ ...list, ...changed })
  const create = async () => {
    const { id } = await call<{ id: number }>('POST', '/mailing_lists', { mailing_list: list })
    onClose()
    await go(`/console/lists/${id}`)
  }
  return html`<${FormDialog} name="New list" verb="Create list" ...${{ isBusy, onClose }} run=${() => run(create)}>
    <${Field} label="Name" value=${list.name} fault=${fault} onPick=${(name: string) => change({ name })} />
    <${Check} label="Email format" onPick=${(isOn: boolean) => change({ has_format: isOn })} />
    <${Check} label="Confirmed" onPick=${(isOn: boolean) => change({ has_confirmed: isOn })} />
  <//>`
}
