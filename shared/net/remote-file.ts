import type { AddressGuard } from './address-guard.ts'
import { ImportError } from '../contract/errors.ts'
import type { DownloadBounds } from './download-bounds.ts'

/** A file on somebody's server, opened: what http and ftp have in common. */
export interface RemoteFile {
  /** Bytes that the server announced, before any decoding; null when it didn't. */
  expected: number | null
  /** The body is packed for its way over the network. */
  isEncoded: boolean
  /** What comes. It throws when the transfer breaks off, and ends only when the server has said that it is over. */
  body: AsyncIterable<Buffer>
  close: () => Promise<void>
}

/** Who is asked: an address without credentials, and those that go with it. */
export interface RemoteTarget {
  url: URL
  credentials: Credentials | null
}

export interface Credentials {
  username: string
  password: string
}

export interface OpenOptions {
  guard: AddressGuard
  bounds: DownloadBounds
  /** Ends opening and reading both, at once. */
  signal: AbortSignal
}

export const isFtp = (url: URL): boolean => url.protocol === 'ftp:' || url.protocol === 'ftps:'
export const isHttp = (url: URL): boolean => url.protocol === 'http:' || url.protocol === 'https:'

/** The address and its credentials apart, so that no message and no log can show them by mistake. */
export function targetOf(url: URL): RemoteTarget {
  const bare = new URL(url)
  bare.username = bare.password = bare.hash = ''
  const credentials =
    url.username === '' && url.password === ''
      ? null
      : { username: decodeURIComponent(url.username), password: decodeURIComponent(url.password) }
  return { url: bare, credentials }
}

const longestShown = 300

/** For messages and logs: queries often hold tokens, and userinfo passwords. */
export function shown(url: URL): string {
  const { url: bare } = targetOf(url)
  const query = bare.search === '' ? '' : '?…'
  bare.search = ''
  return `${shortened(bare.href)}${query}`
}

/** What a server says, for a message: in one line, short, and without the credentials that it was given. */
export function quoted(text: string, credentials: Credentials | null): string {
  let clean = text
  for (const secret of [credentials?.password, credentials?.username]) {
    if (secret === undefined || secret === '') continue
    for (const form of [secret, encodeURIComponent(secret)]) clean = clean.replaceAll(form, '***')
  }
  return shortened(clean.replaceAll(/[\u0000-\u001f\u007f-\u009f\s]+/g, ' ').trim())
}

const shortened = (text: string): string =>
  text.length > longestShown ? `${text.slice(0, longestShown)}…` : text

/** The next try may go well. */
export const failedTry = (message: string, cause?: unknown): ImportError =>
  new ImportError('source_unavailable', message, { retryable: true, cause })
