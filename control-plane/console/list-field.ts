import { useEffect, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { FullMailingListView } from '../resources/mailing-lists/view.ts'
import { get, useLoad } from './api.ts'
import { Field } from './page.ts'

type List = Pick<FullMailingListView, 'id' | 'name' | 'is_remote_list'>

interface ListFieldProps {
  /** Null where none is chosen. */
  listId: number | null
  /** Gets the list whose name was entered, and null while no list has it. */
  onPick: (listId: number | null) => void
  /** Whether a Remote List can't be chosen. */
  isLocal?: boolean
}

/** A field for a list's name, with suggestions. */
export function ListField({ listId, onPick, isLocal = false }: ListFieldProps) {
  const [typed, setTyped] = useState<string | null>(null)
  const { data: chosen, error } = useLoad(
    async (signal) => (listId === null ? null : get<List>(`/mailing_lists/${listId}`, signal)),
    [listId],
  )
  const text = typed ?? chosen?.name ?? ''
  const { data: found } = useLoad(
    async (signal) => {
      const search = encodeURIComponent(text.trim())
      // The list of exactly this name may be the last one that has it in its name.
      const path = `/mailing_lists?per_page=${search === '' ? 20 : 2000}&search=${search}`
      return { text, lists: await get<List[]>(path, signal) }
    },
    [text],
  )
  const named = found?.lists.find(({ name }) => name.toLowerCase() === text.trim().toLowerCase())
  const isRefused = isLocal && named?.is_remote_list === true
  const isUnknown = found?.text === text && found.lists.length === 0 && text.trim() !== ''
  useEffect(() => {
    if (typed !== null && named !== undefined && !isRefused) onPick(named.id)
  }, [named?.id, text])
  const type = (value: string) => {
    setTyped(value)
    onPick(null)
  }
  const refusal = isRefused ? 'files can’t be imported into a Remote List' : error
  return html`<${Field}
      label="List"
      list="lists"
      autocomplete="off"
      placeholder="Name of a list"
      value=${text}
      fault=${isUnknown ? 'no list has this in its name' : refusal}
      onPick=${type}
    />
    <datalist id="lists">
      ${found?.lists.slice(0, 20).map(({ id, name }) => html`<option key=${id} value=${name}></option>`)}
    </datalist>`
}
