import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { number } from './format.ts'

interface Part {
  name: string
  count: number
  tone: string
}

/** Counts as a bar, and the same figures in a table beside it. */
export function Counts({ label, parts }: { label: string; parts: Part[] }): VNode {
  const shown = parts.filter(({ count }) => count > 0)
  const figures = shown.map(({ name, count }) => `${number(count)} ${name.toLowerCase()}`).join(', ')
  return html`<div class="counts">
    <div class="bar" role="img" aria-label=${`${label}: ${figures === '' ? 'none' : figures}`}>
      ${shown.map(({ name, count, tone }) => html`<span key=${name} class=${tone} style=${{ flexGrow: count }} />`)}
    </div>
    <table aria-label=${label}>
      <tbody>
        ${parts.map(
          ({ name, count, tone }) => html`<tr key=${name}>
            <th scope="row"><span class=${`dot ${tone}`} /> ${name}</th>
            <td class="number">${number(count)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

export type Outcomes = ImportView['stats']['subscribers']
export type Outcome = keyof Outcomes

/** What became of a row, and the colour of its part of the bar. */
export const outcomes: Record<Outcome, { name: string; tone: string }> = {
  added: { name: 'Added', tone: 'good' },
  updated: { name: 'Updated', tone: 'accent' },
  failed: { name: 'Failed', tone: 'bad' },
  skipped_overwrite: { name: 'Skipped: there already', tone: 'quiet' },
  skipped_active: { name: 'Skipped: active', tone: 'quiet' },
  skipped_unsubscribed: { name: 'Skipped: unsubscribed', tone: 'quiet' },
  skipped_scomp: { name: 'Skipped: complained', tone: 'quiet' },
  skipped_bounced: { name: 'Skipped: bounced', tone: 'quiet' },
  skipped_deactivated: { name: 'Skipped: deactivated', tone: 'quiet' },
  skipped_duplicate: { name: 'Skipped: twice in the file', tone: 'quiet' },
  skipped_over_limit: { name: 'Skipped: over the limit', tone: 'warn' },
  deactivated: { name: 'Deactivated', tone: 'warn' },
}

const kinds = Object.keys(outcomes) as Outcome[]
/** Those that happened, and the first three always. */
const always: Outcome[] = ['added', 'updated', 'failed']

export const happened = (counts: Outcomes): Outcome[] => kinds.filter((kind) => counts[kind] > 0)

/** An import's rows by outcome. Deactivated subscribers are no rows of it, and stand apart. */
export function OutcomeCounts({ counts }: { counts: Outcomes }): VNode {
  const parts = kinds
    .filter((kind) => kind !== 'deactivated' && (counts[kind] > 0 || always.includes(kind)))
    .map((kind) => ({ ...outcomes[kind], count: counts[kind] }))
  return html`<${Counts} label="Rows by outcome" parts=${parts} />
    ${counts.deactivated > 0 && html`<p>${number(counts.deactivated)} subscribers not in the file are deactivated.</p>`}`
}

const statusTones: Record<string, string> = {
  ...{ active: 'good', unsubscribed: 'quiet', bounced: 'warn', scomp: 'bad', deactivated: 'accent' },
}

/** `scomp` is the API's word. */
export const statusName = (status: string): string =>
  status === 'scomp' ? 'Complained' : status.slice(0, 1).toUpperCase() + status.slice(1)

export function StatusCounts({ counts }: { counts: Record<string, number> }): VNode {
  const parts = Object.entries(counts).map(([status, count]) => ({
    ...{ name: statusName(status), count, tone: statusTones[status] ?? 'quiet' },
  }))
  return html`<${Counts} label="Subscribers by status" parts=${parts} />`
}
