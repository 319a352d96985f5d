import { useEffect, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { WhoamiView } from '../resources/whoami/schemas.ts'
import { ApiError, call, messageOf, repeat, useAction } from './api.ts'
import { Field, onSubmit, Page } from './page.ts'
import { findKey, forgetKey, signIn } from './session.ts'

/** Shown without a key, at any address, which stays. */
export function SignIn() {
  const [key, setKey] = useState('')
  const { isBusy, fault, run } = useAction()
  useEffect(() => document.querySelector<HTMLElement>('.sign-in input')?.focus(), [])
  const tryKey = async () => {
    if (key.trim() === '') throw new Error('enter an API key')
    signIn(key.trim(), await whoami(key.trim()))
  }
  return html`<div class="sign-in">
    <${Page} title="Sign in">
      <form onSubmit=${onSubmit(() => run(tryKey, whatIsWrong))}>
        <${Field}
          label="API key"
          type="password"
          autocomplete="off"
          spellcheck=${false}
          value=${key}
          fault=${fault}
          hint="It stays in this browser's tab until you sign out."
          onPick=${setKey}
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

function whatIsWrong(error: unknown): string {
  if (!(error instanceof ApiError)) return messageOf(error)
  if (error.status === 429) return `too many wrong keys came from this address: wait ${error.retryAfter} s`
  return error.status === 401
    ? 'this key is not valid: it may be mistyped, inactive or deleted'
    : error.message
}

/** Whose key this is. It is asked once, at the sign-in. */
const whoami = (key: string): Promise<WhoamiView> => call('GET', '/whoami', undefined, { key })

/** Finds the key of this tab or of another one, and asks whose it is. */
export async function start(): Promise<void> {
  const key = await findKey()
  try {
    if (key === null) forgetKey()
    else signIn(key, await repeat(undefined, () => whoami(key)))
  } catch (error) {
    forgetKey()
    if (!(error instanceof ApiError)) throw error
  }
}
