import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { SubscriberView } from '../resources/subscribers/schemas.ts'
import { ApiError, get, useLoad, useRows } from './api.ts'
import { exactTime } from './format.ts'
import { Empty, Facts, Fault, Loading, onSubmit, Page, valueOf } from './page.ts'
import { address, go } from './router.ts'
import { Table } from './table.ts'

interface Found {
  id: number
  status: string
  email: string
  mailing_list: { id: number; name: string }
}

export const personAddress = (listId: number, email: string): string =>
  `/console/lists/${listId}?email=${encodeURIComponent(email)}`

/** In the header: the lists on which an address is. */
export function FindPerson(): VNode {
  const [email, setEmail] = useState('')
  const submit = () => {
    if (email.trim() !== '') void go(`/console/people?email=${encodeURIComponent(email.trim())}`)
  }
  return html`<form role="search" class="find" onSubmit=${onSubmit(submit)}>
    <input
      type="search"
      aria-label="Find a person"
      placeholder="Find a person by email address"
      value=${email}
      onInput=${(event: Event) => setEmail(valueOf(event))}
    />
  </form>`
}

export function People(): VNode {
  const email = address.value.query.get('email') ?? ''
  const { data, error, more } = useRows<Found>(
    `/subscribers_by_email/${encodeURIComponent(email)}?per_page=100`,
  )
  return html`<${Page} title="Find a person">
    <p>Lists with <strong>${email}</strong></p>
    <${Fault} text=${error} />
    ${data === null && error === null && html`<${Loading} what="lists" />`}
    ${data?.length === 0 && html`<${Empty}>No list has this address. It may be spelled otherwise, or not imported yet.<//>`}
    ${
      data !== null &&
      data.length > 0 &&
      html`<${Table}
        label="Lists with this address"
        rows=${data}
        rowKey=${(row: Found) => `${row.mailing_list.id}:${row.id}`}
        more=${more}
        columns=${[
          {
            name: 'List',
            cell: ({ mailing_list: list, email: found }: Found) =>
              html`<a href=${personAddress(list.id, found)}>${list.name}</a>`,
          },
          { name: 'Email', cell: (row: Found) => row.email },
          { name: 'Status', cell: (row: Found) => row.status },
        ]}
      />`
    }
  <//>`
}

/** What a list has of an address, with all fields. */
export function Person({ listId, email }: { listId: number; email: string }): VNode {
  const { data, error } = useLoad<SubscriberView[]>(
    (signal) =>
      get<SubscriberView[]>(
        `/mailing_lists/${listId}/subscribers/${encodeURIComponent(email)}`,
        signal,
      ).catch((failure: unknown) => {
        if (failure instanceof ApiError && failure.code === 'not_found') return []
        throw failure
      }),
    [listId, email],
  )
  if (error !== null) return html`<${Fault} text=${error} />`
  if (data === null) return html`<${Loading} what="the subscriber" />`
  if (data.length === 0)
    return html`<p role="status">No subscriber of this list has the address ${email}.</p>`
  return html`<div>${data.map((found) => html`<${Subscriber} key=${found.id} subscriber=${found} />`)}</div>`
}

const cell = (value: string | number | boolean | string[] | null): string =>
  value === null || value === '' ? '–' : Array.isArray(value) ? value.join(', ') : String(value)

function Subscriber({ subscriber: found }: { subscriber: SubscriberView }): VNode {
  const facts: [string, string][] = [
    ['Email', found.email],
    ['Status', found.status],
    ...(found.email_format === undefined
      ? []
      : ([['Email format', found.email_format]] as [string, string][])),
    ...(found.confirmed === undefined ? [] : ([['Confirmed', cell(found.confirmed)]] as [string, string][])),
    [
      'Subscribed',
      `${exactTime(found.subscribe_time)}${found.subscribe_ip === null ? '' : ` from ${found.subscribe_ip}`}`,
    ],
    ...(found.remove_time === null
      ? []
      : ([
          [
            'Removed',
            `${exactTime(found.remove_time)}${found.remove_ip === null ? '' : ` from ${found.remove_ip}`}`,
          ],
        ] as [string, string][])),
    ...Object.values(found.custom_fields).map(({ name, value }) => [name, cell(value)] as [string, string]),
  ]
  return html`<${Facts} label=${`Subscriber ${found.email}`} facts=${facts} />`
}
