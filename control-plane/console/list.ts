import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { SubscriberCountsView } from '../resources/subscriber-counts/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, useLoad, useRows } from './api.ts'
import type { PageProps } from './app.ts'
import { StatusCounts } from './counts.ts'
import { number, time } from './format.ts'
import { StateMark } from './import-state.ts'
import { Fault, Field, Loading, onSubmit, Page, valueOf } from './page.ts'
import { Person } from './people.ts'
import { address, setQuery } from './router.ts'
import { may, readsImports } from './session.ts'
import { usePageStore } from './store.ts'
import { listing } from './table.ts'

/** One list: its subscribers by status, a search for one of them, its imports and its fields. */
export function List({ ids: [id = 0] }: PageProps): VNode {
  const { data: list, error } = useLoad<MailingListView>((signal) => get(`/mailing_lists/${id}`, signal), [])
  if (list === null) return html`<${Page} title=${error === null ? null : `List ${id}`} error=${error} />`
  const isLocal = !list.is_remote_list
  const importLink =
    isLocal &&
    may('subscriber', 'import') &&
    html`<a class="button primary" href=${`/console/lists/${id}/import`}>Import a file</a>`
  return html`<${Page} title=${list.name} above=${html`<a href="/console/lists">Mailing lists</a>`} actions=${importLink}>
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

function ListCounts({ id }: { id: number }): VNode {
  const { data, error } = useLoad<SubscriberCountsView>((signal) => get('/subscriber_counts', signal), [])
  const found = data?.mailing_lists.find(({ mailing_list: list }) => list.id === id)
  if (found !== undefined) return html`<${StatusCounts} counts=${found.counts} />`
  return error === null ? html`<${Loading} what="counts" />` : html`<${Fault} text=${error} />`
}

function FindSubscriber({ id }: { id: number }): VNode {
  const email = address.value.query.get('email') ?? ''
  const store = usePageStore(() => ({ email }))
  const type = (event: Event) => store.set({ email: valueOf(event) })
  return html`<form class="filters" onSubmit=${onSubmit(() => setQuery({ email: store.value.email.trim() }))}>
      <${Field} label="Find an email address" type="search" value=${store.value.email} onInput=${type} />
      <button>Find</button>
    </form>
    ${email !== '' && html`<${Person} listId=${id} email=${email} />`}`
}

function ListImports({ id }: { id: number }): VNode {
  const imports = useRows<ImportView>(
    `/mailing_lists/${id}/subscriber_imports?view=full&scope=all&order=created&per_page=25`,
  )
  return html`<section class="panel">
    <h2>Imports</h2>
    ${listing(imports, {
      ...{ label: 'Imports', rowKey: (row) => row.id },
      empty: 'Nothing was imported into this list yet. Begin with “Import a file”.',
      columns: [
        {
          name: 'Import',
          cell: (row) =>
            html`<a href=${`/console/imports/${row.id}`}>${row.file_source.filename}</a>${row.dry_run && html` <span class="tag">Check</span>`}`,
        },
        { name: 'State', cell: ({ state }) => html`<${StateMark} state=${state} />` },
        { name: 'Rows', isNumber: true, cell: ({ stats }) => number(stats.records_imported) },
        {
          name: 'Time',
          cell: (row) => html`<span class="together">${time(row.finished_at ?? row.begins_at)}</span>`,
        },
      ],
    })}
  </section>`
}

const typeNames: Record<CustomFieldView['field_type'], string> = {
  ...{ text: 'text', text_multiline: 'text of several lines', number: 'number', date: 'date' },
  ...{ day_of_year: 'day of year', select_single_dropdown: 'one of', select_single_radio: 'one of' },
  ...{ select_multiple_checkboxes: 'some of', boolean: 'yes or no' },
}

function Fields({ list }: { list: MailingListView }): VNode {
  const fields = useRows<CustomFieldView>(`/mailing_lists/${list.id}/custom_fields?per_page=2000`)
  const isKey = ({ id }: CustomFieldView) => id === list.primary_key_custom_field_id
  return html`<section class="panel">
    <h2>Fields</h2>
    ${listing(fields, {
      ...{ label: 'Fields', rowKey: ({ id }) => id },
      empty:
        'The list has no custom field. An import makes text fields of columns where you choose “New text field”.',
      columns: [
        { name: 'Name', cell: ({ name }) => name },
        { name: 'Type', cell: ({ field_type: type, options }) => `${typeNames[type]} ${options.join(', ')}` },
        {
          name: 'Required',
          cell: (field) => (isKey(field) ? 'yes, the primary key' : field.required ? 'yes' : 'no'),
        },
      ],
    })}
  </section>`
}
