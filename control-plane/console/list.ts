import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { FullMailingListView } from '../resources/mailing-lists/view.ts'
import type { ImportSummaryView } from '../resources/subscriber-imports/schemas.ts'
import type { SubscriberCountsView } from '../resources/subscriber-counts/schemas.ts'
import { get, useLoad, useRows } from './api.ts'
import type { PageProps } from './app.ts'
import { StatusCounts } from './counts.ts'
import { number, time } from './format.ts'
import { StateMark } from './import-state.ts'
import { Empty, Fault, Field, Loading, onSubmit, Page, valueOf } from './page.ts'
import { Person } from './people.ts'
import { address, setQuery } from './router.ts'
import { may, readsImports } from './session.ts'
import { usePageStore } from './store.ts'
import { Table } from './table.ts'

type List = Omit<FullMailingListView, 'counts' | 'last_import'>

/** One list: its subscribers by status, a search for one of them, its imports and its fields. */
export function List({ ids: [id = 0] }: PageProps): VNode {
  const { data: list, error } = useLoad<List>((signal) => get(`/mailing_lists/${id}`, signal), [])
  if (list === null) return html`<${Page} title=${error === null ? null : `List ${id}`} error=${error} />`
  const isLocal = !list.is_remote_list
  const importLink =
    isLocal &&
    may('subscriber', 'import') &&
    html`<a class="button primary" href=${`/console/lists/${id}/import`}>Import a file</a>`
  const above = html`<a href="/console/lists">Mailing lists</a>`
  return html`<${Page} title=${list.name} ...${{ above }} actions=${importLink}>
    ${!isLocal && html`<p class="notice">This is a Remote List: its subscribers are kept elsewhere, and nothing is imported into it here.</p>`}
    <section class="panel">
      <h2>Subscribers</h2>
      <${ListCounts} id=${id} />
      ${isLocal && may('subscriber', 'read') && html`<${FindSubscriber} id=${id} />`}
    </section>
    ${isLocal && readsImports() && html`<${ListImports} ...${{ id, importLink }} />`}
    <${Fields} ...${{ list }} />
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
  const submit = () => setQuery({ email: store.value.email.trim() })
  return html`<form class="filters" onSubmit=${onSubmit(submit)}>
      <${Field}
        label="Find an email address"
        type="search"
        value=${store.value.email}
        onInput=${(event: Event) => store.set({ email: valueOf(event) })}
      />
      <button>Find</button>
    </form>
    ${email !== '' && html`<${Person} listId=${id} email=${email} />`}`
}

function ListImports({ id, importLink }: { id: number; importLink: VNode | false }): VNode {
  const { data, error, more } = useRows<ImportSummaryView>(
    `/mailing_lists/${id}/subscriber_imports?scope=all&order=created&per_page=25`,
  )
  const columns = [
    {
      name: 'Import',
      cell: (row: ImportSummaryView) =>
        html`<a href=${`/console/imports/${row.id}`}>${row.file_source.filename}</a>`,
    },
    { name: 'State', cell: ({ state }: ImportSummaryView) => html`<${StateMark} state=${state} />` },
    {
      ...{ name: 'Rows', isNumber: true },
      cell: ({ stats }: ImportSummaryView) => number(stats.records_imported),
    },
    {
      name: 'Time',
      cell: (row: ImportSummaryView) =>
        html`<span class="together">${time(row.finished_at ?? row.begins_at)}</span>`,
    },
  ]
  return html`<section class="panel">
    <h2>Imports</h2>
    <${Fault} text=${error} />
    ${
      data === null
        ? error === null && html`<${Loading} what="imports" />`
        : data.length === 0
          ? html`<${Empty}><p>Nothing was imported into this list yet.</p>${importLink}<//>`
          : html`<${Table} label="Imports" rows=${data} rowKey=${(row: ImportSummaryView) => row.id} ...${{ columns, more }} />`
    }
  </section>`
}

const typeNames: Record<string, string> = {
  ...{ text: 'text', text_multiline: 'text of several lines', number: 'number', date: 'date' },
  ...{ day_of_year: 'day of year', select_single_dropdown: 'one of', select_single_radio: 'one of' },
  ...{ select_multiple_checkboxes: 'some of', boolean: 'yes or no' },
}

function Fields({ list }: { list: List }): VNode {
  const { data, error } = useRows<CustomFieldView>(`/mailing_lists/${list.id}/custom_fields?per_page=2000`)
  const type = ({ field_type: of, options }: CustomFieldView) =>
    `${typeNames[of] ?? of}${options.length === 0 ? '' : ` ${options.join(', ')}`}`
  const isKey = ({ id }: CustomFieldView) => id === list.primary_key_custom_field_id
  return html`<section class="panel">
    <h2>Fields</h2>
    <${Fault} text=${error} />
    ${
      data === null
        ? error === null && html`<${Loading} what="fields" />`
        : data.length === 0
          ? html`<p class="hint">The list has no custom field. An import makes text fields of columns where you choose “New text field”.</p>`
          : html`<${Table}
              label="Fields"
              rows=${data}
              rowKey=${({ id }: CustomFieldView) => id}
              columns=${[
                { name: 'Name', cell: ({ name }: CustomFieldView) => name },
                { name: 'Type', cell: type },
                {
                  name: 'Required',
                  cell: (field: CustomFieldView) =>
                    isKey(field) ? 'yes, the primary key' : field.required ? 'yes' : 'no',
                },
              ]}
            />`
    }
  </section>`
}
