import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import { time } from './format.ts'
import { Fault, Loading } from './page.ts'

export interface Column<Row> {
  name: string
  /** By default what it is sorted by. */
  cell?: (row: Row) => ComponentChildren
  /** What its header's button sorts by; a column without it can't be sorted. */
  sort?: (row: Row) => string | number | null
  isNumber?: boolean
}

interface TableProps<Row> {
  /** The name of the table and of the box that scrolls where it is too wide. */
  label: string
  columns: Column<Row>[]
  /** Null until they are read. */
  rows: Row[] | null
  error?: string | null
  /** What it says without rows. */
  empty?: ComponentChildren
  /** What tells a row from the others; by default its place. */
  rowKey?: (row: Row) => string | number
  /** Shows the next page; null after the last one. */
  more?: (() => void) | null
  /** On a phone its cells stand below each other; roles say that it is a table all the same. */
  isStacked?: boolean
}

interface Order {
  column: string
  isDescending: boolean
}

/** A table, or what stands in its place: that it is being read, why it can't be, or that it has no rows. */
export const table = <Row>(props: TableProps<Row>) => html`<${Table} ...${props} />`

function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, error = null, empty = null, rowKey, more = null, isStacked = false } = props
  const [order, setOrder] = useState<Order | null>(null)
  if (rows === null) return html`<${Loading} what=${label.toLowerCase()} error=${error} />`
  if (rows.length === 0) return html`<${Fault} text=${error} /><div class="empty">${empty}</div>`
  const cell = ({ cell: show, sort, isNumber }: Column<Row>, row: Row, i: number) =>
    html`<td key=${i} role="cell" class=${isNumber && 'number'}>${show ? show(row) : (sort?.(row) ?? '–')}</td>`
  return html`<${Fault} text=${error} />
    <div class=${isStacked ? 'table stacked' : 'table'} role="region" aria-label=${label} tabindex="0">
      <table role="table" aria-label=${label}>
        <thead>
          <tr>${columns.map((column, i) => html`<${Header} key=${i} ...${{ column, order, setOrder }} />`)}</tr>
        </thead>
        <tbody>
          ${sorted(rows, columns, order).map(
            (row, at) =>
              html`<tr key=${rowKey?.(row) ?? at} role="row">${columns.map((column, i) => cell(column, row, i))}</tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${more !== null && html`<p><button type="button" onClick=${more}>Show more</button></p>`}`
}

interface HeaderProps<Row> {
  column: Column<Row>
  order: Order | null
  setOrder: (order: Order) => void
}

/** The first press sorts upwards, or numbers from the largest down; the next one turns it around. */
function Header<Row>({ column: { name, sort, isNumber = false }, order, setOrder }: HeaderProps<Row>) {
  if (sort === undefined) return html`<th scope="col" class=${isNumber && 'number'}>${name}</th>`
  const isOurs = order?.column === name
  const direction = !isOurs ? 'none' : order.isDescending ? 'descending' : 'ascending'
  const press = () => setOrder({ column: name, isDescending: isOurs ? !order.isDescending : isNumber })
  return html`<th scope="col" class=${isNumber && 'number'} aria-sort=${direction}>
    <button type="button" class="sort" onClick=${press}>
      ${name}<span aria-hidden="true">${!isOurs ? '' : order.isDescending ? ' ↓' : ' ↑'}</span>
    </button>
  </th>`
}

function sorted<Row>(rows: Row[], columns: Column<Row>[], order: Order | null): Row[] {
  const sort = columns.find(({ name }) => name === order?.column)?.sort
  if (sort === undefined || order === null) return rows
  const sign = order.isDescending ? -1 : 1
  return rows.toSorted((a, b) => {
    const [left, right] = [sort(a), sort(b)]
    // Rows without a value come last either way.
    if (left === null || right === null) return Number(left === null) - Number(right === null)
    if (typeof left === 'number' && typeof right === 'number') return sign * (left - right)
    return sign * String(left).localeCompare(String(right))
  })
}

/** Cells: a time, and a text that takes two lines on a phone. */
export const when = (at: string) => html`<span class="together">${time(at)}</span>`
export const wide = (text: ComponentChildren) => html`<div class="two-lines">${text}</div>`
