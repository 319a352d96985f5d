import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { html } from 'htm/preact'
import type { FullMailingListView } from '../resources/mailing-lists/view.ts'
import { get, useLoad } from './api.ts'
import { Field, valueOf } from './page.ts'
import { usePageStore } from './store.ts'

type List = Pick<FullMailingListView, 'id' | 'name' | 'is_remote_list'>

interface ListFieldProps {
  /** Null where none is chosen. */
  listId: number | null
  /** Gets the list whose name was entered, and null while no list has it. */
  onPick: (listId: number | null) => void
  /** Why a list with the name that was entered can't be chosen. */
  refuse?: (list: List) => string | null
}

/** A field for a list's name, with suggestions. */
export function ListField({ listId, onPick, refuse = () => null }: ListFieldProps): VNode {
  const store = usePageStore(() => ({ typed: null as string | null }))
  const { data: chosen, error } = useLoad<List | null>(
    (signal) => (listId === null ? Promise.resolve(null) : get<List>(`/mailing_lists/${listId}`, signal)),
    [listId],
  )
  const text = store.value.typed ?? chosen?.name ?? ''
  const { data: found } = useLoad<{ text: string; lists: List[] }>(
    async (signal) => {
      const search = encodeURIComponent(text.trim())
      // The list of exactly this name may be the last one that has it in its name.
      const path = `/mailing_lists?per_page=${search === '' ? 20 : 2000}&search=${search}`
      return { text, lists: await get<List[]>(path, signal) }
    },
    [text],
  )
  const named = found?.lists.find(({ name }) => name.toLowerCase() === text.trim().toLowerCase())
  const refusal = named === undefined ? null : refuse(named)
  const isUnknown = found?.text === text && found.lists.length === 0 && text.trim() !== ''
  useEffect(() => {
    if (store.value.typed !== null && named !== undefined && refusal === null) onPick(named.id)
  }, [named?.id, text])
  const type = (typed: string) => {
    store.set({ typed })
    onPick(null)
  }
  return html`<${Field}
      label="List"
      list="lists"
      autocomplete="off"
      placeholder="Name of a list"
      value=${text}
      fault=${isUnknown ? 'no list has this in its name' : (refusal ?? error)}
      onInput=${(event: Event) => type(valueOf(event))}
    />
    <datalist id="lists">
      ${found?.lists.slice(0, 20).map(({ id, name }) => html`<option key=${id} value=${name}></option>`)}
    </datalist>`
}
