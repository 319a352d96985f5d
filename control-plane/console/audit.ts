import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { AuditEventView } from '../resources/audit-events/schemas.ts'
import { useRows } from './api.ts'
import { time } from './format.ts'
import { Field, Page, Select, valueOf } from './page.ts'
import { address, setQuery } from './router.ts'
import { Listing, type Column } from './table.ts'

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
export function Audit(): VNode {
  const { query } = address.value
  const [action = '', record = '', since = ''] = ['action', 'record', 'since'].map(
    (name) => query.get(name) ?? '',
  )
  const asked = new URLSearchParams({ per_page: '100' })
  if (action !== '') asked.set('action', action)
  if (record !== '') asked.set('record_type', record)
  // A day begins as the organization's zone has it.
  if (since !== '') asked.set('since', `${since}T00:00:00`)
  const { data, error, more } = useRows<AuditEventView>(`/audit_events?${asked}`)
  const isFiltered = asked.size > 1
  return html`<${Page} title="Audit">
    <div class="filters">
      <${Select}
        ...${{ label: 'Action', value: action, options: [['', 'All actions'], ...Object.entries(actions)] }}
        onPick=${(picked: string) => setQuery({ action: picked })}
      />
      <${Select}
        ...${{ label: 'Record', value: record, options: [['', 'All records'], ...Object.entries(records)] }}
        onPick=${(picked: string) => setQuery({ record: picked })}
      />
      <${Field}
        ...${{ label: 'Since', type: 'date', value: since }}
        onInput=${(event: Event) => setQuery({ since: valueOf(event) })}
      />
    </div>
    <${Listing}
      ...${{ label: 'Events', columns, error, more, rows: data }}
      rowKey=${({ id }: AuditEventView) => id}
      empty=${
        isFiltered
          ? 'Nothing like this was done.'
          : 'Nothing was done yet. Changes of imports, lists, fields, keys and users will stand here.'
      }
    />
  <//>`
}

const columns: Column<AuditEventView>[] = [
  { name: 'When', cell: ({ occurred_at: at }) => html`<span class="together">${time(at)}</span>` },
  { name: 'Who', cell: who },
  { name: 'Action', cell: ({ action }) => actions[action] },
  {
    name: 'Record',
    cell: ({ record_type: type, ...event }) =>
      type === null ? 'An address' : html`${records[type]}${' '}<${RecordName} ...${{ ...event, type }} />`,
  },
  { name: 'Changes', cell: ({ changes }) => changes.join(', ') },
  { name: 'Address', cell: ({ address: from }) => from ?? '' },
]

function who({ by, api_key_name: key, user_name: user }: AuditEventView): string {
  if (by === 'service') return 'The service'
  const names = [key, user].filter((name) => name !== null).join(', ')
  return by === 'profile' ? `An import profile${names === '' ? '' : `, for ${names}`}` : names
}

type Named = Pick<AuditEventView, 'record_id' | 'record_name'> & { type: keyof typeof records }

/** The name of that moment, as a link where the record has a page. */
function RecordName({ type, record_id: id, record_name: name }: Named): VNode | string | null {
  const page = { subscriber_import: 'imports', mailing_list: 'lists' }[type as string]
  return page === undefined ? name : html`<a href=${`/console/${page}/${id}`}>${name}</a>`
}
