import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function List(): VNode {
  return html`<${Page} title="List"><p>This page isn't written yet.</p><//>`
}
