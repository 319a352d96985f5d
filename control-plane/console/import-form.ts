import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function ImportForm(): VNode {
  return html`<${Page} title="Import a file"><p>This page isn't written yet.</p><//>`
}
