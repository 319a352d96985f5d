import type { WhoamiView } from '../resources/whoami/schemas.ts'
import { createStore } from './store.ts'

/**
 * The API key that was entered. It is in `sessionStorage` alone; a new tab asks the other open ones for it, and one that
 * signs out tells them.
 */

const item = 'rollcall-api-key'
const channel = new BroadcastChannel('rollcall-session')
const answerTimeoutMs = 300

type Message = { ask: true } | { key: string } | { signedOut: true }

interface Session {
  /** Whether it isn't known yet if this tab or another one has a key. */
  isAsking: boolean
  key: string | null
  who: WhoamiView | null
}

export const session = createStore<Session>({ isAsking: true, key: null, who: null })

export function signIn(key: string, who: WhoamiView): void {
  sessionStorage.setItem(item, key)
  session.set({ isAsking: false, key, who })
}

/** The key was refused or taken away in this tab; other tabs find out by themselves. */
export function forgetKey(): void {
  sessionStorage.removeItem(item)
  session.set({ isAsking: false, key: null, who: null })
}

export function signOut(): void {
  forgetKey()
  channel.postMessage({ signedOut: true } satisfies Message)
}

/** The key of this tab, or of another open one; null where none has any. */
export function findKey(): Promise<string | null> {
  const own = sessionStorage.getItem(item)
  if (own !== null) return Promise.resolve(own)
  return new Promise((resolve) => {
    const answer = ({ data }: MessageEvent<Message>) => {
      if ('key' in data) resolve(data.key)
    }
    channel.addEventListener('message', answer)
    channel.postMessage({ ask: true } satisfies Message)
    setTimeout(() => {
      channel.removeEventListener('message', answer)
      resolve(null)
    }, answerTimeoutMs)
  })
}

channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
  const { key } = session.value
  if ('ask' in data && key !== null) channel.postMessage({ key } satisfies Message)
  if ('signedOut' in data && key !== null) forgetKey()
})

type Permissions = WhoamiView['permissions']

/** Whether the key may do this; what it may not do isn't offered. */
export function may<Key extends keyof Permissions>(key: Key, action: Permissions[Key][number]): boolean {
  return session.value.who?.permissions[key].some((allowed) => allowed === action) === true
}

export const isAdmin = (): boolean =>
  ['organization_admin', 'system_admin'].includes(session.value.who?.role ?? '')

export const isUploader = (): boolean => session.value.who?.role === 'uploads'

export const readsImports = (): boolean => may('subscriber', 'read') || may('subscriber', 'import')
