import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { SubscriberView } from '../resources/subscribers/schemas.ts'
import { ApiError, get, useLoad, useRows } from './api.ts'
import { statusName } from './counts.ts'
import { exactTime } from './format.ts'
import { Facts, Fault, Loading, onSubmit, Page, valueOf } from './page.ts'
import { address, go } from './router.ts'
import { listing } from './table.ts'

/** In the header: the lists on which an address is. */
export function FindPerson(): VNode {
  const [email, setEmail] = useState('')
  const submit = () =>
    email.trim() !== '' && void go(`/console/people?email=${encodeURIComponent(email.trim())}`)
  return html`<form role="search" class="find" onSubmit=${onSubmit(submit)}>
    <input
      ...${{ type: 'search', 'aria-label': 'Find a person', placeholder: 'Find a person by email address' }}
      value=${email}
      onInput=${(event: Event) => setEmail(valueOf(event))}
    />
  </form>`
}

interface Found {
  id: number
  status: string
  email: string
  mailing_list: { id: number; name: string }
}

export function People(): VNode {
  const email = address.value.query.get('email') ?? ''
  return html`<${Page} title="Find a person">
    ${email === '' ? html`<p>Enter an email address in the field above.</p>` : html`<${ListsWith} email=${email} />`}
  <//>`
}

function ListsWith({ email }: { email: string }): VNode {
  const found = useRows<Found>(`/subscribers_by_email/${encodeURIComponent(email)}?per_page=100`)
  const listAddress = ({ mailing_list: list, email: typed }: Found) =>
    `/console/lists/${list.id}?email=${encodeURIComponent(typed)}`
  return html`<p>Lists with <strong>${email}</strong></p>
    ${listing(found, {
      ...{ label: 'Lists with this address', rowKey: ({ id }) => id },
      empty: 'No list has this address. It may be spelled otherwise, or not imported yet.',
      columns: [
        { name: 'List', cell: (row) => html`<a href=${listAddress(row)}>${row.mailing_list.name}</a>` },
        { name: 'Email', cell: (row) => row.email },
        { name: 'Status', cell: (row) => statusName(row.status) },
      ],
    })}`
}

/** What a list has of an address, with all fields. */
export function Person({ listId, email }: { listId: number; email: string }): VNode {
  const { data, error } = useLoad<SubscriberView[]>(
    (signal) => findSubscribers(listId, email, signal),
    [listId, email],
  )
  if (error !== null) return html`<${Fault} text=${error} />`
  if (data === null) return html`<${Loading} what="the subscriber" />`
  if (data.length === 0)
    return html`<p role="status">No subscriber of this list has the address ${email}.</p>`
  return html`<div>
    ${data.map((found) => html`<${Facts} key=${found.id} label=${`Subscriber ${found.email}`} facts=${factsOf(found)} />`)}
  </div>`
}

const findSubscribers = (listId: number, email: string, signal: AbortSignal): Promise<SubscriberView[]> =>
  get<SubscriberView[]>(`/mailing_lists/${listId}/subscribers/${encodeURIComponent(email)}`, signal).catch(
    (error: unknown) => {
      if (error instanceof ApiError && error.code === 'not_found') return []
      throw error
    },
  )

type Value = string | number | boolean | string[] | null | undefined

function factsOf(found: SubscriberView): [string, string][] {
  const at = (instant: string | null, ip: string | null) =>
    instant === null ? null : `${exactTime(instant)}${ip === null ? '' : ` from ${ip}`}`
  const own: [string, Value][] = [
    ['Email', found.email],
    ['Status', statusName(found.status)],
    ['Email format', found.email_format],
    ['Confirmed', found.confirmed],
    ['Subscribed', at(found.subscribe_time, found.subscribe_ip)],
    ['Removed', at(found.remove_time, found.remove_ip) ?? undefined],
  ]
  const fields = Object.values(found.custom_fields).map(({ name, value }): [string, Value] => [name, value])
  return [...own.filter(([, value]) => value !== undefined), ...fields].map(([name, value]) => [
    name,
    shown(value),
  ])
}

const shown = (value: Value): string => {
  if (value === null || value === undefined || value === '') return '–'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return Array.isArray(value) ? value.join(', ') : String(value)
}
