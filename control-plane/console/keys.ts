import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { Page } from './page.ts'

export function Keys(): VNode {
  return html`<${Page} title="Keys and users"><p>This page isn't written yet.</p><//>`
}
