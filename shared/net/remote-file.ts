import type { AddressGuard } from './address-guard.ts'
import { ImportError } from '../contract/errors.ts'
import type { DownloadBounds } from './download-bounds.ts'

/** An opened file on a remote server, over http or ftp. */
export interface RemoteFile {
  /** Bytes that the server announced, before decoding; null when it announced none. */
  expected: number | null
  /** What the body's Content-Encoding says, the last one applied last. */
  encodings: ('gzip' | 'zstd')[]
  /** Throws when the transfer breaks off. Ends without an error only when the server has confirmed the end. */
  body: AsyncIterable<Buffer>
  close: () => Promise<void>
}

/** A URL without credentials, and the credentials that belong to it. */
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
  /** Aborts opening and reading at once. */
  signal: AbortSignal
}

export const isFtp = (url: URL): boolean => url.protocol === 'ftp:' || url.protocol === 'ftps:'
export const isHttp = (url: URL): boolean => url.protocol === 'http:' || url.protocol === 'https:'

/** An FTP URL may end with the type of its transfer, which is no part of the name: RFC 1738, section 3.2.2. */
export const pathInUrl = (url: URL): string =>
  isFtp(url) ? url.pathname.replace(/;type=[aid]$/i, '') : url.pathname

/** Separates the URL from its credentials, so that messages and logs cannot show them by mistake. */
export function splitCredentials(url: URL): RemoteTarget {
  const bare = new URL(url)
  bare.username = bare.password = bare.hash = ''
  const credentials =
    url.username === '' && url.password === ''
      ? null
      : { username: decodeURIComponent(url.username), password: decodeURIComponent(url.password) }
  return { url: bare, credentials }
}

const maxQuotedLength = 300

/** The URL for messages and logs, without userinfo and query: both often contain secrets. */
export function maskUrl(url: URL): string {
  const { url: bare } = splitCredentials(url)
  const query = bare.search === '' ? '' : '?…'
  bare.search = ''
  return `${shorten(bare.href)}${query}`
}

/** Text of a server for a message: in one line, shortened, and without the credentials that were sent to it. */
export function quoteServerText(text: string, credentials: Credentials | null): string {
  let clean = text
  for (const secret of [credentials?.password, credentials?.username]) {
    if (secret === undefined || secret === '') continue
    for (const form of [secret, encodeURIComponent(secret)]) clean = clean.replaceAll(form, '***')
  }
  return shorten(clean.replaceAll(/[\u0000-\u001f\u007f-\u009f\s]+/g, ' ').trim())
}

const shorten = (text: string): string =>
  text.length > maxQuotedLength ? `${text.slice(0, maxQuotedLength)}…` : text

/** The error of a failed attempt; a later one may succeed. */
export const failedTry = (message: string, cause?: unknown): ImportError =>
  new ImportError('source_unavailable', message, { retryable: true, cause })
