import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'

type State = ImportView['state']

export const stateNames: Record<State, string> = {
  scheduled: 'Scheduled',
  downloading: 'Downloading',
  splitting: 'Reading',
  importing: 'Importing',
  paused: 'Paused',
  finished: 'Finished',
  failed: 'Failed',
  cancelled: 'Cancelled',
}

const tones: Partial<Record<State, string>> = {
  ...{ paused: 'warn', finished: 'good', failed: 'bad', cancelled: 'quiet', scheduled: 'quiet' },
}

export const StateMark = ({ state }: { state: State }): VNode =>
  html`<span class=${`state ${tones[state] ?? 'busy'}`}>${stateNames[state]}</span>`

export const hasEnded = (state: State): boolean => ['finished', 'failed', 'cancelled'].includes(state)
