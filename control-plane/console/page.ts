import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import { sentence } from './format.ts'

interface PageProps {
  /** The `h1`; null until it is known. */
  title: string | null
  /** What the tab says in place of the title, such as an import's progress. */
  tab?: string | null
  /** Buttons and links beside the `h1`. */
  actions?: ComponentChildren
  /** A link above the `h1`. */
  above?: ComponentChildren
  /** Why the page has nothing to show. */
  error?: string | null
  children: ComponentChildren
}

/** The first page of a document leaves the focus where the browser has it. */
let isFirst = true

/** A page's heading and title. When it is opened, the focus goes to its heading. */
export function Page({ title, tab = null, actions, above, error = null, children }: PageProps): VNode {
  const heading = useRef<HTMLHeadingElement>(null)
  const isKnown = title !== null
  useLayoutEffect(() => {
    if (isKnown) document.title = tab ?? `${title} · Rollcall`
  }, [title, tab])
  useLayoutEffect(() => {
    if (!isKnown) return
    if (!isFirst) heading.current?.focus()
    isFirst = false
  }, [isKnown])
  if (error !== null)
    return html`<main>
      <h1 ref=${heading} tabindex="-1">${title ?? 'Nothing to show'}</h1>
      <p class="fault">${sentence(error)}</p>
    </main>`
  if (!isKnown) return html`<main><p class="loading" role="status">Loading…</p></main>`
  return html`<main>
    ${above === undefined ? null : html`<p class="above">${above}</p>`}
    <div class="heading">
      <h1 ref=${heading} tabindex="-1">${title}</h1>
      <div class="actions">${actions}</div>
    </div>
    ${children}
  </main>`
}

/** What the API says against an input, or that a list is still being read. */
export const Fault = ({ id, text }: { id?: string; text: string | null }): VNode | null =>
  text === null ? null : html`<p class="fault" id=${id} role="status">${sentence(text)}</p>`

export const Loading = ({ what }: { what: string }): VNode =>
  html`<p class="loading" role="status">Loading ${what}…</p>`

export const Empty = ({ children }: { children: ComponentChildren }): VNode =>
  html`<div class="empty">${children}</div>`

export const Warnings = ({ warnings }: { warnings: string[] }): VNode | null =>
  warnings.length === 0
    ? null
    : html`<ul class="warnings" aria-label="Warnings">${warnings.map((text) => html`<li key=${text}>${text}</li>`)}</ul>`

/** Names with their values. */
export const Facts = ({ label, facts }: { label: string; facts: [string, ComponentChildren][] }): VNode =>
  html`<dl class="facts" aria-label=${label}>
    ${facts.map(
      ([name, value]) =>
        html`<div key=${name}>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`

/** A labelled input. Further attributes go to the input. */
export function Field({
  label,
  fault = null,
  hint,
  ...rest
}: { label: string; fault?: string | null; hint?: ComponentChildren } & Record<string, unknown>): VNode {
  const id = `field-${label.toLowerCase().replaceAll(/\W+/g, '-')}`
  const describedBy = fault !== null ? `${id}-fault` : hint === undefined ? null : `${id}-hint`
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <input id=${id} aria-invalid=${fault !== null} aria-describedby=${describedBy} ...${rest} />
    ${hint === undefined ? null : html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    <${Fault} id=${`${id}-fault`} text=${fault} />
  </div>`
}

/** A checkbox with its label. */
export const Check = ({ label, ...rest }: { label: ComponentChildren } & Record<string, unknown>): VNode =>
  html`<label class="check"><input type="checkbox" ...${rest} /> <span>${label}</span></label>`

/** A labelled choice; options are values with what they are called. */
export function Select({
  label,
  options,
  value,
  onPick,
  isLabelHidden = false,
  ...rest
}: {
  label: string
  options: readonly (readonly [string, string])[]
  value: string
  onPick: (value: string) => void
  isLabelHidden?: boolean
} & Record<string, unknown>): VNode {
  const id = `select-${label.toLowerCase().replaceAll(/\W+/g, '-')}`
  return html`<div class="field">
    <label for=${id} class=${isLabelHidden ? 'hidden' : null}>${label}</label>
    <select
      id=${id}
      value=${value}
      onChange=${(event: Event) => onPick((event.target as HTMLSelectElement).value)}
      ...${rest}
    >
      ${options.map(
        ([key, name]) => html`<option key=${key} value=${key} selected=${key === value}>${name}</option>`,
      )}
    </select>
  </div>`
}

export const valueOf = (event: Event): string => (event.target as HTMLInputElement).value
export const isTicked = (event: Event): boolean => (event.target as HTMLInputElement).checked

/** Runs what a form does, without leaving the page. */
export const onSubmit = (run: () => void) => (event: Event) => {
  event.preventDefault()
  run()
}
