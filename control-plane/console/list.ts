import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { SubscriberCountsView } from '../resources/subscriber-counts/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, useLoad, useRows } from './api.ts'
import type { PageProps } from './app.ts'
import { StateMark, StatusCounts } from './counts.ts'
import { number } from './format.ts'
import { Field, Loading, onSubmit, Page } from './page.ts'
import { Person } from './people.ts'
import { filter } from './router.ts'
import { may, readsImports } from './session.ts'
import { table, when } from './table.ts'

/** One list: its subscribers by status, a search for one of them, its imports and its fields. */
export function List({ ids: [id = 0] }: PageProps) {
  const { data: list, error } = useLoad<MailingListView>((signal) => get(`/mailing_lists/${id}`, signal), [])
  if (list === null) return html`<${Page} title=${error && `List ${id}`} error=${error} />`
  const isLocal = !list.is_remote_list
  const importLink = html`<a class="button primary" href=${`/console/lists/${id}/import`}>Import a file</a>`
  const above = html`<a href="/console/lists">Mailing lists</a>`
  return html`<${Page} title=${list.name} above=${above} actions=${isLocal && may('subscriber', 'import') && importLink}>
    ${!isLocal && html`<p class="notice">This is a Remote List: its subscribers are kept elsewhere, and nothing is imported into it here.</p>`}
    <section class="panel">
      <h2>Subscribers</h2>
      <${ListCounts} id=${id} />
      ${isLocal && may('subscriber', 'read') && html`<${FindSubscriber} id=${id} />`}
    </section>
    ${isLocal && readsImports() && html`<${ListImports} id=${id} />`}
    <${Fields} list=${list} />
  <//>`
}

function ListCounts({ id }: { id: number }) {
  const { data, error } = useLoad<SubscriberCountsView>((signal) => get('/subscriber_counts', signal), [])
  const found = data?.mailing_lists.find(({ mailing_list: list }) => list.id === id)
  if (found === undefined) return html`<${Loading} what="counts" error=${error} />`
  return html`<${StatusCounts} counts=${found.counts} />`
}

function FindSubscriber({ id }: { id: number }) {
  const { value: email, onPick } = filter('email')
  const [typed, setTyped] = useState(email)
  return html`<form class="filters" onSubmit=${onSubmit(() => onPick(typed.trim()))}>
      <${Field} label="Find an email address" type="search" value=${typed} onPick=${setTyped} />
      <button>Find</button>
    </form>
    ${email !== '' && html`<${Person} listId=${id} email=${email} />`}`
}

function ListImports({ id }: { id: number }) {
  const path = `/mailing_lists/${id}/subscriber_imports?view=full&scope=all&order=created&per_page=25`
  return html`<section class="panel">
    <h2>Imports</h2>
    ${table({
      ...useRows<ImportView>(path),
      label: 'Imports',
      empty: 'Nothing was imported into this list yet. Begin with “Import a file”.',
      columns: [
        {
          name: 'Import',
          cell: (row) =>
            html`<a href=${`/console/imports/${row.id}`}>${row.file_source.filename}</a>${row.dry_run && html` <span class="tag">Check</span>`}`,
        },
        { name: 'State', cell: ({ state }) => html`<${StateMark} state=${state} />` },
        { name: 'Rows', isNumber: true, cell: ({ stats }) => number(stats.records_imported) },
        { name: 'Time', cell: (row) => when(row.finished_at ?? row.begins_at) },
      ],
    })}
  </section>`
}

const typeNames: Partial<Record<CustomFieldView['field_type'], string>> = {
  text_multiline: 'text of several lines',
  day_of_year: 'day of year',
  select_single_dropdown: 'one of',
  select_single_radio: 'one of',
  select_multiple_checkboxes: 'some of',
  boolean: 'yes or no',
}

function Fields({ list }: { list: MailingListView }) {
  const isRequired = ({ id, required }: CustomFieldView) =>
    id === list.primary_key_custom_field_id ? 'yes, the primary key' : required ? 'yes' : 'no'
  return html`<section class="panel">
    <h2>Fields</h2>
    ${table({
      ...useRows<CustomFieldView>(`/mailing_lists/${list.id}/custom_fields?per_page=2000`),
      label: 'Fields',
      empty: 'The list has no custom field.',
      columns: [
        { name: 'Name', cell: ({ name }) => name },
        {
          name: 'Type',
          cell: ({ field_type: type, options }) => `${typeNames[type] ?? type} ${options.join(', ')}`,
        },
        { name: 'Required', cell: isRequired },
      ],
    })}
  </section>`
}
