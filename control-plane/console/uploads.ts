import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function Uploads(): VNode {
  return html`<${Page} title="Uploads"><p>This page isn't written yet.</p><//>`
}
