import { html } from 'htm/preact'
import type { ImportState } from '../../shared/contract/import-state.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { number } from './format.ts'
import { Figures } from './page.ts'

/** What a state is called, and its colour. */
const states: Record<ImportState, [name: string, tone: string]> = {
  scheduled: ['Scheduled', 'quiet'],
  downloading: ['Downloading', 'busy'],
  splitting: ['Reading', 'busy'],
  importing: ['Importing', 'busy'],
  paused: ['Paused', 'warn'],
  finished: ['Finished', 'good'],
  failed: ['Failed', 'bad'],
  cancelled: ['Cancelled', 'quiet'],
}

export const stateNames = Object.entries(states).map(([state, [name]]) => [state, name] as const)

export const StateMark = ({ state }: { state: ImportState }) =>
  html`<span class=${`state ${states[state][1]}`}>${states[state][0]}</span>`

interface CountsProps {
  label: string
  parts: [name: string, tone: string, count: number][]
}

/** Counts as a bar, and the same figures in a table beside it. */
function Counts({ label, parts }: CountsProps) {
  const shown = parts.filter(([, , count]) => count > 0)
  const figures = shown.map(([name, , count]) => `${number(count)} ${name.toLowerCase()}`).join(', ')
  const rows = parts.map(([name, tone, count]) => [
    html`<span class=${`dot ${tone}`} /> ${name}`,
    number(count),
  ])
  return html`<div class="counts">
    <div class="bar" role="img" aria-label=${`${label}: ${figures || 'none'}`}>
      ${shown.map(([name, tone, count]) => html`<span key=${name} class=${tone} style=${{ flexGrow: count }} />`)}
    </div>
    <${Figures} ...${{ label, rows }} />
  </div>`
}

type Outcomes = ImportView['stats']['subscribers']
export type Outcome = keyof Outcomes

/** What became of a row, and the colour of its part of the bar. */
export const outcomes: Record<Outcome, [name: string, tone: string]> = {
  added: ['Added', 'good'],
  updated: ['Updated', 'accent'],
  failed: ['Failed', 'bad'],
  skipped_overwrite: ['Skipped: there already', 'quiet'],
  skipped_active: ['Skipped: active', 'quiet'],
  skipped_unsubscribed: ['Skipped: unsubscribed', 'quiet'],
  skipped_scomp: ['Skipped: complained', 'quiet'],
  skipped_bounced: ['Skipped: bounced', 'quiet'],
  skipped_deactivated: ['Skipped: deactivated', 'quiet'],
  skipped_duplicate: ['Skipped: twice in the file', 'quiet'],
  skipped_over_limit: ['Skipped: over the limit', 'warn'],
  deactivated: ['Deactivated', 'warn'],
}

const kinds = Object.keys(outcomes) as Outcome[]
export const happened = (counts: Outcomes): Outcome[] => kinds.filter((kind) => counts[kind] > 0)

/** An import's rows by outcome. Deactivated subscribers are no rows of it, and stand apart. */
export function OutcomeCounts({ counts }: { counts: Outcomes }) {
  const always = ['added', 'updated', 'failed']
  const parts = kinds
    .filter((kind) => kind !== 'deactivated' && (counts[kind] > 0 || always.includes(kind)))
    .map((kind) => [...outcomes[kind], counts[kind]])
  return html`<${Counts} label="Rows by outcome" parts=${parts} />
    ${counts.deactivated > 0 && html`<p>${number(counts.deactivated)} subscribers not in the file are deactivated.</p>`}`
}

const statusTones: Record<string, string> = {
  active: 'good',
  bounced: 'warn',
  scomp: 'bad',
  deactivated: 'accent',
}

/** `scomp` is the API's word. */
export const statusName = (status: string): string =>
  status === 'scomp' ? 'Complained' : status.slice(0, 1).toUpperCase() + status.slice(1)

export function StatusCounts({ counts }: { counts: Record<string, number> }) {
  const parts = Object.entries(counts).map(([status, count]) => {
    return [statusName(status), statusTones[status] ?? 'quiet', count]
  })
  return html`<${Counts} label="Subscribers by status" parts=${parts} />`
}
