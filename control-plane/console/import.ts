import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function Import(): VNode {
  return html`<${Page} title="Import"><p>This page isn't written yet.</p><//>`
}
