import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function Audit(): VNode {
  return html`<${Page} title="Audit"><p>This page isn't written yet.</p><//>`
}
