import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { SubscriberView } from '../resources/subscribers/schemas.ts'
import { ApiError, get, useLoad, useRows } from './api.ts'
import { statusName } from './counts.ts'
import { exactTime } from './format.ts'
import { Facts, Loading, onSubmit, Page, valueOf } from './page.ts'
import { address, go } from './router.ts'
import { table } from './table.ts'

/** In the header: the lists on which an address is. */
export function FindPerson() {
  const [email, setEmail] = useState('')
  const submit = () => void go(`/console/people?email=${encodeURIComponent(email.trim())}`)
  return html`<form role="search" class="find" onSubmit=${onSubmit(submit)}>
    <input
      type="search"
      required
      aria-label="Find a person"
      placeholder="Find a person by email address"
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

export function People() {
  const email = address.value.query.get('email') ?? ''
  return html`<${Page} title="Find a person">
    ${email === '' ? html`<p>Enter an email address in the field above.</p>` : html`<${ListsWith} email=${email} />`}
  <//>`
}

function ListsWith({ email }: { email: string }) {
  const link = ({ mailing_list: { id, name }, email: typed }: Found) =>
    html`<a href=${`/console/lists/${id}?email=${encodeURIComponent(typed)}`}>${name}</a>`
  return html`<p>Lists with <strong>${email}</strong></p>
    ${table({
      ...useRows<Found>(`/subscribers_by_email/${encodeURIComponent(email)}?per_page=100`),
      label: 'Lists with this address',
      empty: 'No list has this address. It may be spelled otherwise, or not imported yet.',
      columns: [
        { name: 'List', cell: link },
        { name: 'Email', cell: (row) => row.email },
        { name: 'Status', cell: (row) => statusName(row.status) },
      ],
    })}`
}

/** What a list has of an address, with all fields. */
export function Person({ listId, email }: { listId: number; email: string }) {
  const path = `/mailing_lists/${listId}/subscribers/${encodeURIComponent(email)}`
  const load = (signal: AbortSignal) =>
    get<SubscriberView[]>(path, signal).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === 'not_found') return []
      throw error
    })
  const { data, error } = useLoad(load, [path])
  if (data === null || error !== null) return html`<${Loading} what="the subscriber" error=${error} />`
  if (data.length === 0)
    return html`<p role="status">No subscriber of this list has the address ${email}.</p>`
  return html`<div>
    ${data.map((found) => html`<${Facts} key=${found.id} label=${`Subscriber ${found.email}`} facts=${factsOf(found)} />`)}
  </div>`
}

type Value = string | number | boolean | string[] | null

function factsOf(found: SubscriberView): [string, string][] {
  const at = (instant: string | null, ip: string | null) =>
    instant && `${exactTime(instant)}${ip === null ? '' : ` from ${ip}`}`
  const facts: [string, Value | undefined][] = [
    ['Email', found.email],
    ['Status', statusName(found.status)],
    ['Email format', found.email_format],
    ['Confirmed', found.confirmed],
    ['Subscribed', at(found.subscribe_time, found.subscribe_ip)],
    ['Removed', at(found.remove_time, found.remove_ip) ?? undefined],
    ...Object.values(found.custom_fields).map(({ name, value }): [string, Value] => [name, value]),
  ]
  return facts.flatMap(([name, value]) => (value === undefined ? [] : [[name, shown(value)]]))
}

function shown(value: Value): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return (Array.isArray(value) ? value.join(', ') : String(value ?? '')) || '–'
}
