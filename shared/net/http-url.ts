import type { CookieJar } from 'tough-cookie'
import type { Dispatcher } from 'undici'
import { ImportError } from '../contract/errors.ts'
import { contentEncodings } from './content-encoding.ts'
import { DownloadProblem, classifyStatus } from './download-failure.ts'
import { sendGuardedRequest, guardedAgent, refuseLiteral } from './guarded-http.ts'
import { DelayedEnd } from './delayed-end.ts'
import {
  failedTry,
  quoteServerText,
  maskUrl,
  type OpenOptions,
  type RemoteFile,
  type RemoteTarget,
} from './remote-file.ts'

/**
 * Opens a file over http or https, on a connection of its own to the checked address. The caller follows redirects.
 */

const redirectStatuses = new Set([301, 302, 303, 307, 308])

/**
 * Resolves to the file, which the caller closes, or to the Location of a redirect, whose cookies go into the jar. Throws
 * ImportError `source_unavailable` (retryable) for any other answer, AddressRefused, the signal's reason, and undici's
 * errors.
 */
export async function openByHttp(
  target: RemoteTarget,
  options: OpenOptions & { cookies: CookieJar },
): Promise<RemoteFile | { location: string | undefined }> {
  const { url } = target
  const { cookies } = options
  refuseLiteral(options.guard, target)
  const end = new DelayedEnd()
  const agent = await guardedAgent(options.guard, options.bounds, (socket) => end.delay(socket))
  try {
    const cookie = cookies.getCookieStringSync(url.href)
    const response = await sendGuardedRequest(target, agent, {
      signal: options.signal,
      headers: { 'accept-encoding': 'identity', ...(cookie === '' ? {} : { cookie }) },
    })
    // A reader gets the error as well. Without a reader and a listener it would end the process.
    response.body.on('error', () => undefined)
    if (redirectStatuses.has(response.statusCode)) {
      await agent.destroy()
      for (const line of [response.headers['set-cookie'] ?? []].flat())
        cookies.setCookieSync(line, url.href, { ignoreError: true })
      return { location: escapeBytes(headerText(response.headers['location'])) }
    }
    return { ...describeBody(response, url), body: end.read(response.body), close: () => agent.destroy() }
  } catch (error) {
    await agent.destroy()
    throw error
  }
}

function describeBody(
  { statusCode, headers }: Dispatcher.ResponseData,
  url: URL,
): Pick<RemoteFile, 'expected' | 'encodings'> {
  if (statusCode !== 200)
    throw failedTry(
      `${maskUrl(url)} answered with status ${statusCode}, expected 200`,
      new DownloadProblem(classifyStatus(statusCode)),
    )
  const length = headerText(headers['content-length'])
  return {
    expected: length !== undefined && /^\d+$/.test(length) ? Number(length) : null,
    encodings: parseEncodings([headers['content-encoding'] ?? ''].flat().join(), url),
  }
}

/** undici decodes headers as Latin-1. A URL has the bytes of a Location as they are, and most servers mean UTF-8. */
const escapeBytes = (text: string | undefined): string | undefined =>
  text?.replaceAll(/[\x80-\xff]/g, escapeByte)

const escapeByte = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`

/** Each encoding needs a decoder with memory of its own. */
const maxEncodings = 4

function parseEncodings(text: string, url: URL): RemoteFile['encodings'] {
  const encodings = contentEncodings(text)
  const known = encodings.filter((name) => name === 'gzip' || name === 'zstd')
  if (known.length === encodings.length && known.length <= maxEncodings) return known
  throw new ImportError(
    'source_refused',
    `the file from ${maskUrl(url)} came with Content-Encoding ${JSON.stringify(quoteServerText(text, null))}, expected none, gzip or zstd, at most ${maxEncodings} in all`,
  )
}

const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value
