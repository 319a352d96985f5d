import { useEffect, useRef, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { z } from 'zod'
import type { ApiKeyView } from '../resources/api-keys/schemas.ts'
import type { userView } from '../resources/users/schemas.ts'
import { call, messageOf, useAction, useRows } from './api.ts'
import { ask, FormDialog } from './dialog.ts'
import { Fault, Field, Page } from './page.ts'
import { session } from './session.ts'
import { usePageStore } from './store.ts'
import { table, when, type Column } from './table.ts'

type UserView = z.infer<typeof userView>
type NewKey = ApiKeyView & { key: string }

/** What keys of a role may do, most powerful first. */
const roles: Record<ApiKeyView['role'], string> = {
  system_admin: 'System administrator: everything, in all organizations',
  organization_admin: 'Administrator: everything in this organization',
  standard: 'Standard: sees lists, and does what its user may',
  uploads: 'Uploads: sends files, and does nothing else',
}
const roleName = ({ role }: { role: ApiKeyView['role'] }): string => roles[role].split(':')[0]!
const isOwn = ({ id }: ApiKeyView): boolean => id === session.value.who?.api_key.id

/** The organization's API keys and its users. */
export function Keys() {
  const store = usePageStore({ isCreating: false, created: null as NewKey | null })
  const { isCreating, created } = store.value
  const keys = useRows<ApiKeyView>('/api_keys?per_page=100')
  const users = useRows<UserView>(`/organizations/${session.value.who?.organization.id}/users?per_page=100`)
  const { fault, run } = useAction()
  const revoke = async (key: ApiKeyView) => {
    const text = isOwn(key)
      ? 'You are signed in with this key: you will be signed out, and can’t come back with it.'
      : 'Who uses it is refused from then on, within 5 seconds everywhere.'
    if (!(await ask({ question: `Revoke ${key.name}?`, text, verb: 'Revoke key' }))) return
    run(
      () => call('DELETE', `/api_keys/${key.id}`).finally(keys.reload),
      (error) => `${key.name}: ${messageOf(error)}`,
    )
  }
  const onCreated = (key: NewKey) => {
    store.set({ isCreating: false, created: key })
    keys.reload()
  }
  const newKey = html`<button type="button" class="primary" onClick=${() => store.set({ isCreating: true })}>New key</button>`
  return html`<${Page} title="Keys and users" actions=${newKey}>
    ${created !== null && html`<${CreatedKey} key=${created.id} created=${created} onDone=${() => store.set({ created: null })} />`}
    <${Fault} text=${fault} />
    ${table({ ...keys, label: 'Keys', columns: keyColumns((key) => void revoke(key)), rowKey: ({ id }) => id })}
    <h2>Users</h2>
    ${table({ ...users, label: 'Users', columns: userColumns, empty: 'This organization has no users.' })}
    ${isCreating && html`<${NewKeyForm} onCreated=${onCreated} onClose=${() => store.set({ isCreating: false })} />`}
  <//>`
}

const keyColumns = (revoke: (key: ApiKeyView) => void): Column<ApiKeyView>[] => [
  {
    name: 'Name',
    sort: ({ name }) => name,
    cell: (key) =>
      html`${key.name}${isOwn(key) && html` <span class="tag">Yours</span>`}${!key.active && html` <span class="tag">Inactive</span>`}`,
  },
  { name: 'Role', sort: roleName },
  { name: 'Folder', sort: ({ uploads_folder: folder }) => folder },
  { name: 'Created', sort: ({ created_at: at }) => at, cell: ({ created_at: at }) => when(at) },
  {
    name: 'Last used',
    sort: ({ last_used_at: at }) => at,
    cell: ({ last_used_at: at }) => (at === null ? 'never' : when(at)),
  },
  {
    name: 'Actions',
    cell: (key) =>
      html`<button type="button" aria-label=${`Revoke ${key.name}`} onClick=${() => revoke(key)}>Revoke</button>`,
  },
]

const userColumns: Column<UserView>[] = [
  { name: 'Name', sort: ({ full_name: name }) => name },
  { name: 'Email', sort: ({ email }) => email },
  { name: 'Role', sort: roleName },
  { name: 'Active', sort: ({ active }) => Number(active), cell: ({ active }) => (active ? 'Yes' : 'No') },
]

interface NewKeyProps {
  onCreated: (key: NewKey) => void
  onClose: () => void
}

function NewKeyForm({ onCreated, onClose }: NewKeyProps) {
  const store = usePageStore({ name: '', role: '', uploads_folder: '' })
  const { name, role, uploads_folder: folder } = store.value
  const { isBusy, fault, run } = useAction()
  const offered = Object.entries(roles).slice(
    Object.keys(roles).indexOf(session.value.who?.role ?? 'uploads'),
  )
  /** A field, with what the API says against it: its sentences begin with the parameter's name. */
  const field = (parameter: 'name' | 'role' | 'uploads_folder', more: object) =>
    html`<${Field}
      value=${store.value[parameter]}
      fault=${fault !== null && fault.split(' ')[0] === parameter ? fault : null}
      onPick=${(value: string) => store.set({ [parameter]: value })}
      ...${more}
    />`
  const create = async () => {
    if (role === '') throw new Error('role must be chosen')
    const uploads_folder = role === 'uploads' ? folder.trim() || null : null
    onCreated(await call<NewKey>('POST', '/api_keys', { api_key: { name, role, uploads_folder } }))
  }
  const isOfField = /^(?:name|role|uploads_folder) /.test(fault ?? '')
  return html`<${FormDialog} name="New key" verb="Create key" ...${{ isBusy, onClose }} run=${() => run(create)}>
    ${field('name', { label: 'Name', hint: 'Who or what will use it, such as “Nightly job”.' })}
    ${field('role', { label: 'Role', options: [['', 'Choose a role'], ...offered] })}
    ${role === 'uploads' && field('uploads_folder', { label: 'Folder', hint: 'The key sees this folder alone. Leave it blank for the whole upload directory.' })}
    <${Fault} text=${isOfField ? null : fault} />
  <//>`
}

/** Shows the new key, which no later reply has. */
function CreatedKey({ created, onDone }: { created: NewKey; onDone: () => void }) {
  const [said, setSaid] = useState('')
  const panel = useRef<HTMLElement>(null)
  const input = () => panel.current?.querySelector('input')
  useEffect(() => input()?.focus(), [])
  const copy = async () => {
    input()?.select()
    // There is no clipboard where the page came over plain HTTP from another machine.
    const clipboard = navigator.clipboard as Clipboard | undefined
    const isCopied = await clipboard?.writeText(created.key).then(
      () => true,
      () => false,
    )
    setSaid(isCopied === true ? 'Copied.' : 'It is selected: copy it with Ctrl+C or ⌘C.')
  }
  return html`<section class="panel new-key" ref=${panel} aria-label=${`New key ${created.name}`}>
    <h2>${created.name} was created</h2>
    <p>Copy the key now: it is shown only once.</p>
    <div class="copy">
      <${Field} label="The new key" readonly value=${created.key} spellcheck=${false} />
      <button type="button" class="primary" onClick=${() => void copy()}>Copy</button>
      <button type="button" onClick=${onDone}>Done</button>
    </div>
    <p class="hint" role="status">${said}</p>
  </section>`
}
