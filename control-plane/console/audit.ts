import { html } from 'htm/preact'
import type { AuditEventView } from '../resources/audit-events/schemas.ts'
import { useRows } from './api.ts'
import { Field, Page } from './page.ts'
import { filter } from './router.ts'
import { table, when, type Column } from './table.ts'

const actions: Record<AuditEventView['action'], string> = {
  created: 'Created',
  updated: 'Changed',
  deleted: 'Deleted',
  run: 'Ran',
  paused: 'Paused',
  unpaused: 'Resumed',
  cancelled: 'Cancelled',
  undone: 'Undone',
  exported: 'Exported',
  erased: 'Erased',
}

const records: Record<NonNullable<AuditEventView['record_type']>, string> = {
  subscriber_import: 'Import',
  mailing_list: 'List',
  custom_field: 'Field',
  api_key: 'API key',
  ssh_key: 'SSH key',
  user: 'User',
  import_profile: 'Import profile',
  organization: 'Organization',
}

/** Who did what. */
export function Audit() {
  const [action, record, since] = [filter('action'), filter('record'), filter('since')]
  const asked = new URLSearchParams({ per_page: '100' })
  if (action.value !== '') asked.set('action', action.value)
  if (record.value !== '') asked.set('record_type', record.value)
  // A day begins as the organization's zone has it.
  if (since.value !== '') asked.set('since', `${since.value}T00:00:00`)
  const events = useRows<AuditEventView>(`/audit_events?${asked}`)
  return html`<${Page} title="Audit">
    <div class="filters">
      <${Field} label="Action" ...${action} options=${[['', 'All actions'], ...Object.entries(actions)]} />
      <${Field} label="Record" ...${record} options=${[['', 'All records'], ...Object.entries(records)]} />
      <${Field} label="Since" type="date" ...${since} />
    </div>
    ${table({
      ...events,
      label: 'Events',
      columns,
      rowKey: ({ id }) => id,
      empty: asked.size > 1 ? 'Nothing like this was done.' : 'Nothing was done yet.',
    })}
  <//>`
}

const columns: Column<AuditEventView>[] = [
  { name: 'When', cell: ({ occurred_at: at }) => when(at) },
  { name: 'Who', cell: who },
  { name: 'Action', cell: ({ action }) => actions[action] },
  { name: 'Record', cell: recordOf },
  { name: 'Changes', cell: ({ changes }) => changes.join(', ') },
  { name: 'Address', cell: ({ address }) => address ?? '' },
]

function who({ by, api_key_name: key, user_name: user }: AuditEventView) {
  if (by === 'service') return 'The service'
  const names = [key, user].filter((name) => name !== null).join(', ')
  return by === 'profile' ? `An import profile${names === '' ? '' : `, for ${names}`}` : names
}

/** The name of that moment, as a link where the record has a page. */
function recordOf({ record_type: type, record_id: id, record_name: name }: AuditEventView) {
  if (type === null) return 'An address'
  const page = { subscriber_import: 'imports', mailing_list: 'lists' }[type as string]
  return html`${records[type]} ${page === undefined ? name : html`<a href=${`/console/${page}/${id}`}>${name}</a>`}`
}
