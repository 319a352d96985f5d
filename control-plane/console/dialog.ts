import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import { createStore, useStore } from './store.ts'

interface Question {
  question: string
  /** What happens, in a sentence. */
  text: string
  /** The verb and its object: `Cancel import`. */
  verb: string
}

const asked = createStore<{ question: (Question & { answer: (isYes: boolean) => void }) | null }>({
  question: null,
})

/** Asks before what can't be taken back. Escape is `Keep`, where the focus begins. */
export function ask(question: Question): Promise<boolean> {
  asked.value.question?.answer(false)
  return new Promise((resolve) => {
    const answer = (isYes: boolean) => {
      asked.set({ question: null })
      resolve(isYes)
    }
    asked.set({ question: { ...question, answer } })
  })
}

/** Stands once in the document, and shows what is asked. */
export function AskedQuestion(): VNode | null {
  const { question } = useStore(asked)
  if (question === null) return null
  const { text, verb, answer } = question
  return html`<${Dialog} name=${question.question} onClose=${() => answer(false)}>
    <p>${text}</p>
    <div class="buttons">
      <button type="button" autofocus onClick=${() => answer(false)}>Keep</button>
      <button type="button" class="danger" onClick=${() => answer(true)}>${verb}</button>
    </div>
  <//>`
}

interface DialogProps {
  name: string
  onClose: () => void
  children: ComponentChildren
}

/** A modal dialog. The focus goes to what has `autofocus`, and back when it is closed. */
export function Dialog({ name, onClose, children }: DialogProps): VNode {
  const element = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const dialog = element.current
    const before = document.activeElement
    dialog?.showModal()
    dialog?.querySelector<HTMLElement>('[autofocus], input')?.focus()
    return () => {
      dialog?.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  const cancel = (event: Event) => {
    event.preventDefault()
    onClose()
  }
  return html`<dialog ref=${element} aria-label=${name} onCancel=${cancel}>
    <h2>${name}</h2>
    ${children}
  </dialog>`
}
