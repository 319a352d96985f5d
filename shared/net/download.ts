import { CookieJar } from 'tough-cookie'
import { AddressRefused } from './address-guard.ts'
import { ImportError, errorMessage } from '../contract/errors.ts'
import type { DownloadBounds } from './download-bounds.ts'
import { DownloadProblem } from './download-failure.ts'
import { openByFtp } from './ftp-url.ts'
import { decompress } from '../containers/decompress.ts'
import { limitBytes, type UnpackBound } from '../containers/unpack.ts'
import { openByHttp } from './http-url.ts'
import {
  failedTry,
  isFtp,
  isHttp,
  quoteServerText,
  maskUrl,
  splitCredentials,
  type OpenOptions,
  type RemoteFile,
  type RemoteTarget,
} from './remote-file.ts'
import { decimalMegabyte } from '../values/byte-sizes.ts'

/**
 * One attempt to download a file over any scheme. It follows redirects, counts the bytes, takes off their
 * Content-Encoding, and counts again. It ends without an error only when the server has confirmed that the file is complete.
 *
 * Redirects are followed here and not by undici, because the address of every hop is checked. Credentials are sent
 * only to the origin that they were given for. Cookies of redirects are kept to the end of the attempt: without them
 * share links redirect to themselves.
 */

interface DownloadOptions extends OpenOptions {
  /** Remaining time for all attempts together. */
  remainingMs: number
  /** Bytes received so far, and the announced total where the server gave one; both before decoding. */
  onProgress: (received: number, expected: number | null) => void
}

/** Yields the file. Throws ImportError, `retryable` where a later attempt may succeed, or the signal's reason. */
export async function* downloadedContent(url: URL, options: DownloadOptions): AsyncGenerator<Buffer> {
  const deadline = AbortSignal.timeout(Math.max(0, Math.floor(options.remainingMs)))
  const signal = AbortSignal.any([options.signal, deadline])
  try {
    yield* downloadFile(url, { ...options, signal })
  } catch (error) {
    throw toImportError(error, url, options, deadline)
  }
}

async function* downloadFile(url: URL, context: DownloadOptions): AsyncGenerator<Buffer> {
  const { bounds } = context
  const file = await openFinal(splitCredentials(url), context)
  try {
    if (file.expected !== null && file.expected > bounds.bytes) throw tooLargeError(bounds)
    const what = `the body from ${maskUrl(url)}`
    let decoded = countBytes(file, url, context)
    for (const encoding of file.encodings.toReversed())
      decoded = limitBytes(decompress(decoded, encoding, { what }), downloadBound(bounds))
    yield* decoded
  } finally {
    await file.close()
  }
}

/** Opens the file at the end of all redirects. */
async function openFinal(first: RemoteTarget, options: OpenOptions): Promise<RemoteFile> {
  const cookies = new CookieJar(null, { allowSecureOnLocal: false })
  let target = first
  for (let redirects = 0; ; redirects += 1) {
    if (isFtp(target.url)) return openByFtp(target, options)
    const answer = await openByHttp(target, { ...options, cookies })
    if (!('location' in answer)) return answer
    if (redirects === options.bounds.redirects)
      throw failedTry(
        `more than ${options.bounds.redirects} redirects, the last one from ${maskUrl(target.url)}`,
      )
    target = redirectTarget(target, answer.location)
  }
}

function redirectTarget(from: RemoteTarget, location: string | undefined): RemoteTarget {
  if (location === undefined || location === '')
    throw failedTry(`${maskUrl(from.url)} redirects, but its answer has no Location`)
  const to = URL.parse(location, from.url)
  if (to === null) throw failedTry(`${maskUrl(from.url)} redirects to an invalid URL`)
  if (!isHttp(to) && !isFtp(to))
    throw failedTry(
      `${maskUrl(from.url)} redirects to a ${quoteServerText(to.protocol, null)} address, expected http, https, ftp or ftps`,
    )
  const staysAtOrigin = to.origin === from.url.origin && isHttp(to)
  // Credentials in a Location come from the server and not from the client, so they aren't sent.
  to.username = to.password = ''
  return { url: splitCredentials(to).url, credentials: staysAtOrigin ? from.credentials : null }
}

/** Passes the bytes from the network on. Throws when they exceed the bound or are fewer than announced. */
async function* countBytes(
  file: RemoteFile,
  url: URL,
  { bounds, onProgress }: DownloadOptions,
): AsyncGenerator<Buffer> {
  let bytes = 0
  const soFar = () => (file.expected === null ? `${bytes} bytes` : `${bytes} of ${file.expected} bytes`)
  onProgress(0, file.expected)
  try {
    for await (const piece of file.body) {
      bytes += piece.length
      if (bytes > bounds.bytes) throw tooLargeError(bounds)
      onProgress(bytes, file.expected)
      yield piece
    }
  } catch (error) {
    if (error instanceof ImportError) throw error
    throw failedTry(`${maskUrl(url)} broke off after ${soFar()}: ${errorMessage(error)}`, error)
  }
  if (file.expected !== null && bytes !== file.expected)
    throw failedTry(`${maskUrl(url)} sent ${soFar()}`, new DownloadProblem('broken_off'))
}

/** The bound of the file, decoded and unpacked. */
export const downloadBound = (bounds: DownloadBounds): UnpackBound => ({
  bytes: bounds.bytes,
  error: () => tooLargeError(bounds),
})

const tooLargeError = ({ bytes }: DownloadBounds) =>
  new ImportError(
    'source_refused',
    `the file has more than ${bytes / decimalMegabyte} MB, the maximum for a download: upload it over HTTP or by FTP instead`,
    { cause: new DownloadProblem('too_large') },
  )

const timeoutError = (url: URL, { totalMs }: DownloadBounds, cause?: unknown) =>
  new ImportError(
    'source_refused',
    `${maskUrl(url)} had not sent the whole file after ${totalMs / 60_000} minutes`,
    { cause: new DownloadProblem('timeout', cause) },
  )

/** The error of an attempt as an ImportError. All but final refusals are `retryable`. */
function toImportError(error: unknown, url: URL, context: DownloadOptions, deadline: AbortSignal): unknown {
  if (context.signal.aborted) return context.signal.reason
  if (error instanceof ImportError && error.code === 'source_refused') return error
  if (deadline.aborted) return timeoutError(url, context.bounds, error)
  const refused = findCause(error, AddressRefused)
  if (refused !== null) return new ImportError('source_refused', refused.message, { cause: error })
  if (error instanceof ImportError) return error.retryable ? error : failedTry(error.message, error)
  const { credentials } = splitCredentials(url)
  return failedTry(
    `${maskUrl(url)} couldn't be downloaded: ${quoteServerText(errorMessage(error), credentials)}`,
    error,
  )
}

function findCause<T extends Error>(error: unknown, kind: new (...args: never[]) => T): T | null {
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (at instanceof kind) return at
  return null
}
