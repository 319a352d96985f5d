import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function Imports(): VNode {
  return html`<${Page} title="Imports"><p>This page isn't written yet.</p><//>`
}
