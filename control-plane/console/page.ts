import type { ComponentChildren } from 'preact'
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
export function Page({ title, tab = null, actions, above, error = null, children }: PageProps) {
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
  if (!isKnown && error === null) return html`<main><p class="loading" role="status">Loading…</p></main>`
  return html`<main>
    ${above !== undefined && html`<p class="above">${above}</p>`}
    <div class="heading">
      <h1 ref=${heading} tabindex="-1">${title ?? 'Nothing to show'}</h1>
      <div class="actions">${actions}</div>
    </div>
    <${Fault} text=${error} />
    ${children}
  </main>`
}

/** What the API says against an input or a reading. */
export const Fault = ({ id, text }: { id?: string; text: string | null }) =>
  text === null ? null : html`<p class="fault" id=${id} role="status">${sentence(text)}</p>`

/** That something is being read, or why it can't be. */
export const Loading = ({ what, error = null }: { what: string; error?: string | null }) =>
  error === null
    ? html`<p class="loading" role="status">Loading ${what}…</p>`
    : html`<${Fault} text=${error} />`

export const Warnings = ({ warnings }: { warnings: string[] }) =>
  warnings.length === 0
    ? null
    : html`<ul class="warnings" aria-label="Warnings">${warnings.map((text) => html`<li key=${text}>${text}</li>`)}</ul>`

/** Names with their values. */
export const Facts = ({ label, facts }: { label: string; facts: [string, ComponentChildren][] }) =>
  html`<dl class="facts" aria-label=${label}>
    ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`

/** Figures beside their bar or plot. */
export const Figures = ({ label, rows }: { label: string; rows: [ComponentChildren, string][] }) =>
  html`<table aria-label=${label}>
    <tbody>
      ${rows.map(([name, value], i) => html`<tr key=${i}><th scope="row">${name}</th><td class="number">${value}</td></tr>`)}
    </tbody>
  </table>`

interface FieldProps extends Record<string, unknown> {
  label: string
  fault?: string | null
  hint?: ComponentChildren
  /** Of a choice: values with what they are called. */
  options?: readonly (readonly [string, string])[]
  onPick?: (value: string) => void
}

/** A labelled input or choice, to which further attributes go. */
export function Field({ label, fault = null, hint, options, onPick, ...rest }: FieldProps) {
  const id = `field-${label.toLowerCase().replaceAll(/\W+/g, '-')}`
  const describedBy = fault !== null ? `${id}-fault` : hint === undefined ? null : `${id}-hint`
  const pick = (event: Event) => onPick?.(valueOf(event))
  const same = { id, 'aria-invalid': fault !== null, 'aria-describedby': describedBy, ...rest }
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${
      options === undefined
        ? html`<input onInput=${pick} ...${same} />`
        : html`<select onChange=${pick} ...${same}>
            ${options.map(([key, name]) => html`<option key=${key} value=${key} selected=${key === rest['value']}>${name}</option>`)}
          </select>`
    }
    ${hint !== undefined && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    <${Fault} id=${`${id}-fault`} text=${fault} />
  </div>`
}

interface CheckProps extends Record<string, unknown> {
  label: string
  onPick: (isTicked: boolean) => void
}

/** A checkbox with its label. */
export function Check({ label, onPick, ...rest }: CheckProps) {
  const pick = (event: Event) => onPick((event.target as HTMLInputElement).checked)
  return html`<label class="check"><input type="checkbox" onChange=${pick} ...${rest} /> <span>${label}</span></label>`
}

export const valueOf = (event: Event): string => (event.target as HTMLInputElement).value

/** Runs what a form does, without leaving the page. */
export const onSubmit = (run: () => void) => (event: Event) => {
  event.preventDefault()
  run()
}
