import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { html } from 'htm/preact'
import type { WhoamiView } from '../resources/whoami/schemas.ts'
import { ApiError, call, messageOf } from './api.ts'
import { Field, onSubmit, Page, valueOf } from './page.ts'
import { signIn } from './session.ts'
import { usePageStore } from './store.ts'

/** Shown without a key, at any address, which stays. */
export function SignIn(): VNode {
  const store = usePageStore<{ key: string; fault: string | null; isBusy: boolean }>(() => ({
    ...{ key: '', fault: null, isBusy: false },
  }))
  const { key, fault, isBusy } = store.value
  useEffect(() => document.querySelector<HTMLElement>('.sign-in input')?.focus(), [])
  const submit = async () => {
    store.set({ fault: null, isBusy: true })
    const failure = await tryKey(key.trim())
    store.set({ fault: failure, isBusy: false })
  }
  return html`<div class="sign-in">
    <${Page} title="Sign in">
      <form onSubmit=${onSubmit(() => void submit())}>
        <${Field}
          label="API key"
          type="password"
          autocomplete="off"
          spellcheck=${false}
          value=${key}
          fault=${fault}
          hint="It stays in this browser's tab until you sign out."
          onInput=${(event: Event) => store.set({ key: valueOf(event) })}
        />
        <button class="primary" disabled=${isBusy}>${isBusy ? 'Signing in…' : 'Sign in'}</button>
      </form>
      <p class="hint">
        You have no key? An administrator of your organization makes one under “Keys and users”, or with${' '}
        <code>rollcall key create</code>.
      </p>
    <//>
  </div>`
}

/** Resolves to what is wrong with the key, or null. */
async function tryKey(key: string): Promise<string | null> {
  if (key === '') return 'enter an API key'
  try {
    signIn(key, await whoami(key))
    return null
  } catch (error) {
    if (!(error instanceof ApiError)) return messageOf(error)
    if (error.status === 429) return `too many wrong keys came from this address: wait ${error.retryAfter} s`
    return error.status === 401
      ? 'this key is not valid: it may be mistyped, inactive or deleted'
      : error.message
  }
}

/** Whose key this is. It is asked once, at the sign-in. */
export const whoami = (key: string): Promise<WhoamiView> => call('GET', '/whoami', undefined, { key })
