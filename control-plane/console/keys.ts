import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import type { ApiKeyView } from '../resources/api-keys/schemas.ts'
import type { userView } from '../resources/users/schemas.ts'
import type { z } from 'zod'
import { call, messageOf, useRows } from './api.ts'
import { ask, Dialog } from './dialog.ts'
import { time } from './format.ts'
import { Fault, Field, onSubmit, Page, Select, valueOf } from './page.ts'
import { session } from './session.ts'
import { usePageStore } from './store.ts'
import { Listing, type Column } from './table.ts'

type UserView = z.infer<typeof userView>
type Role = ApiKeyView['role']
type NewKey = ApiKeyView & { key: string }

/** What keys of a role may do, most powerful first. */
const roles: Record<Role, string> = {
  system_admin: 'System administrator: everything, in all organizations',
  organization_admin: 'Administrator: everything in this organization',
  standard: 'Standard: sees lists, and does what its user may',
  uploads: 'Uploads: sends files, and does nothing else',
}
const roleName = ({ role }: { role: Role }): string => roles[role].split(':')[0]!

/** The organization's API keys and its users. */
export function Keys(): VNode {
  const store = usePageStore<{ isCreating: boolean; created: NewKey | null; fault: string | null }>(() => ({
    ...{ isCreating: false, created: null, fault: null },
  }))
  const { isCreating, created, fault } = store.value
  const keys = useRows<ApiKeyView>('/api_keys?per_page=100')
  const revoke = async ({ id, name }: ApiKeyView) => {
    const isOwn = id === session.value.who?.api_key.id
    const text = isOwn
      ? 'You are signed in with this key: you will be signed out, and can’t come back with it.'
      : 'Who uses it is refused from then on, within 5 seconds everywhere.'
    if (!(await ask({ question: `Revoke ${name}?`, text, verb: 'Revoke key' }))) return
    const failure = await call('DELETE', `/api_keys/${id}`).then(() => null, messageOf)
    store.set({ fault: failure === null ? null : `${name}: ${failure}` })
    keys.reload()
  }
  const onCreated = (key: NewKey) => {
    store.set({ isCreating: false, created: key })
    keys.reload()
  }
  const newKey = html`<button type="button" class="primary" onClick=${() => store.set({ isCreating: true })}>
    New key
  </button>`
  return html`<${Page} title="Keys and users" actions=${newKey}>
    ${created !== null && html`<${CreatedKey} key=${created.id} created=${created} onDone=${() => store.set({ created: null })} />`}
    <${Fault} text=${fault} />
    <${Listing}
      ...${{ label: 'Keys', rows: keys.data, error: keys.error, more: keys.more }}
      columns=${keyColumns((key) => void revoke(key))}
      rowKey=${({ id }: ApiKeyView) => id}
    />
    <${Users} />
    ${isCreating && html`<${NewKeyForm} onCreated=${onCreated} onClose=${() => store.set({ isCreating: false })} />`}
  <//>`
}

const keyColumns = (revoke: (key: ApiKeyView) => void): Column<ApiKeyView>[] => [
  {
    name: 'Name',
    sort: ({ name }) => name,
    cell: ({ id, name, active }) =>
      html`${name}${id === session.value.who?.api_key.id ? html` <span class="tag">Yours</span>` : ''}${
        active ? '' : html` <span class="tag">Inactive</span>`
      }`,
  },
  { name: 'Role', sort: roleName, cell: roleName },
  {
    name: 'Folder',
    sort: ({ uploads_folder: folder }) => folder,
    cell: ({ uploads_folder: folder }) => folder ?? '–',
  },
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

const when = (at: string): VNode => html`<span class="together">${time(at)}</span>`

const fields = { name: /^name\b/, role: /^role\b/, folder: /^uploads_folder\b/ }

function NewKeyForm({
  onCreated,
  onClose,
}: {
  onCreated: (key: NewKey) => void
  onClose: () => void
}): VNode {
  const store = usePageStore(() => ({
    ...{ name: '', role: '', folder: '', isBusy: false },
    fault: null as string | null,
  }))
  const { name, role, folder, isBusy, fault } = store.value
  const own = Object.keys(roles).indexOf(session.value.who?.role ?? 'uploads')
  const offered = Object.entries(roles).slice(own)
  const faultOf = (field: RegExp) => (fault !== null && field.test(fault) ? fault : null)
  const create = async () => {
    if (role === '') {
      store.set({ fault: 'role must be chosen' })
      return
    }
    store.set({ isBusy: true, fault: null })
    const uploadsFolder = role === 'uploads' && folder.trim() !== '' ? folder.trim() : null
    try {
      const body = { api_key: { name, role, uploads_folder: uploadsFolder } }
      onCreated(await call<NewKey>('POST', '/api_keys', body))
    } catch (error) {
      store.set({ isBusy: false, fault: messageOf(error) })
    }
  }
  return html`<${Dialog} name="New key" onClose=${onClose}>
    <form onSubmit=${onSubmit(() => void create())}>
      <${Field}
        ...${{ label: 'Name', value: name, fault: faultOf(fields.name) }}
        hint="Who or what will use it, such as “Nightly job”."
        onInput=${(event: Event) => store.set({ name: valueOf(event) })}
      />
      <${Select}
        ...${{ label: 'Role', value: role, options: [['', 'Choose a role'], ...offered] }}
        onPick=${(picked: string) => store.set({ role: picked })}
      />
      <${Fault} text=${faultOf(fields.role)} />
      ${
        role === 'uploads' &&
        html`<${Field}
          ...${{ label: 'Folder', value: folder, fault: faultOf(fields.folder) }}
          hint="The key sees this folder alone. Leave it blank for the whole upload directory."
          onInput=${(event: Event) => store.set({ folder: valueOf(event) })}
        />`
      }
      <${Fault} text=${Object.values(fields).some((field) => faultOf(field) !== null) ? null : fault} />
      <div class="buttons">
        <button type="button" onClick=${onClose}>Close</button>
        <button class="primary" disabled=${isBusy}>Create key</button>
      </div>
    </form>
  <//>`
}

/** Shows the new key, which no later reply has. */
function CreatedKey({ created, onDone }: { created: NewKey; onDone: () => void }): VNode {
  const store = usePageStore(() => ({ said: '' }))
  const panel = useRef<HTMLElement>(null)
  const input = () => panel.current?.querySelector('input')
  useEffect(() => input()?.focus(), [])
  const copy = async () => {
    input()?.select()
    // There is no clipboard where the page came over plain HTTP from another machine.
    const isCopied = await (navigator.clipboard as Clipboard | undefined)?.writeText(created.key).then(
      () => true,
      () => false,
    )
    store.set({ said: isCopied === true ? 'Copied.' : 'It is selected: copy it with Ctrl+C or ⌘C.' })
  }
  return html`<section class="panel new-key" ref=${panel} aria-label=${`New key ${created.name}`}>
    <h2>${created.name} was created</h2>
    <p>Copy the key now: it is shown only once.</p>
    <div class="copy">
      <${Field} ...${{ label: 'The new key', readonly: true, value: created.key, spellcheck: false }} />
      <button type="button" class="primary" onClick=${() => void copy()}>Copy</button>
      <button type="button" onClick=${onDone}>Done</button>
    </div>
    <p class="hint" role="status">${store.value.said}</p>
  </section>`
}

const userColumns: Column<UserView>[] = [
  { name: 'Name', sort: ({ full_name: name }) => name, cell: ({ full_name: name }) => name },
  { name: 'Email', sort: ({ email }) => email, cell: ({ email }) => email },
  { name: 'Role', sort: roleName, cell: roleName },
  { name: 'Active', sort: ({ active }) => Number(active), cell: ({ active }) => (active ? 'Yes' : 'No') },
]

function Users(): VNode {
  const { data, error, more } = useRows<UserView>(
    `/organizations/${session.value.who?.organization.id}/users?per_page=100`,
  )
  return html`<h2>Users</h2>
    <${Listing}
      ...${{ label: 'Users', rows: data, error, columns: userColumns, more }}
      rowKey=${({ id }: UserView) => id}
      empty="This organization has no users: its keys act for themselves."
    />`
}
