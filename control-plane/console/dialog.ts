import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import { onSubmit } from './page.ts'
import { createStore, useStore } from './store.ts'

interface Question {
  question: string
  /** What happens, in a sentence. */
  text: string
  /** The verb and its object: `Cancel import`. */
  verb: string
}

type Asked = Question & { answer: (isYes: boolean) => void }
const asked = createStore<{ asked: Asked | null }>({ asked: null })

/** Asks before what can't be taken back. Escape is `Keep`, where the focus begins. */
export function ask(question: Question): Promise<boolean> {
  asked.value.asked?.answer(false)
  return new Promise((resolve) => {
    const answer = (isYes: boolean) => {
      asked.set({ asked: null })
      resolve(isYes)
    }
    asked.set({ asked: { ...question, answer } })
  })
}

/** Stands once in the document, and shows what is asked. */
export function AskedQuestion() {
  const { asked: current } = useStore(asked)
  if (current === null) return null
  const { question, text, verb, answer } = current
  return html`<${Dialog} name=${question} onClose=${() => answer(false)}>
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

/** A modal dialog. The browser moves the focus into it, and back when it is closed. */
function Dialog({ name, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  return html`<dialog ref=${element} aria-label=${name} onCancel=${onClose}>
    <h2>${name}</h2>
    ${children}
  </dialog>`
}

interface FormDialogProps extends DialogProps {
  /** The button that does it. */
  verb: string
  isBusy?: boolean
  run: () => void
}

/** A dialog with fields. */
export const FormDialog = ({ name, verb, isBusy = false, run, onClose, children }: FormDialogProps) =>
  html`<${Dialog} ...${{ name, onClose }}>
    <form onSubmit=${onSubmit(run)}>
      ${children}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Close</button>
        <button class="primary" disabled=${isBusy}>${verb}</button>
      </div>
    </form>
  <//>`
