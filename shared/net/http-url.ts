import type { Dispatcher } from 'undici'
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
 * Resolves to the file, which the caller closes, or to the Location of a redirect. Throws ImportError
 * `source_unavailable` (retryable) for any other answer, AddressRefused, the signal's reason, and undici's errors.
 */
export async function openByHttp(
  target: RemoteTarget,
  options: OpenOptions,
): Promise<RemoteFile | { location: string | undefined }> {
  const { url } = target
  refuseLiteral(options.guard, target)
  const end = new DelayedEnd()
  const agent = guardedAgent(options.guard, options.bounds, (socket) => end.delay(socket))
  try {
    const response = await sendGuardedRequest(target, agent, {
      signal: options.signal,
      headers: { 'accept-encoding': 'identity' },
    })
    // A reader gets the error as well. Without a reader and a listener it would end the process.
    response.body.on('error', () => undefined)
    if (redirectStatuses.has(response.statusCode)) {
      await agent.destroy()
      return { location: headerText(response.headers['location']) }
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
): Pick<RemoteFile, 'expected' | 'isEncoded'> {
  if (statusCode !== 200)
    throw failedTry(
      `${maskUrl(url)} answered with status ${statusCode}, expected 200`,
      new DownloadProblem(classifyStatus(statusCode)),
    )
  const encoding = headerText(headers['content-encoding'])?.trim().toLowerCase() ?? ''
  const isEncoded = encoding === 'gzip' || encoding === 'x-gzip'
  if (!isEncoded && encoding !== '' && encoding !== 'identity')
    throw failedTry(
      `the file from ${maskUrl(url)} came with Content-Encoding ${JSON.stringify(quoteServerText(encoding, null))}, expected gzip or none`,
    )
  const length = headerText(headers['content-length'])
  return {
    expected: length !== undefined && /^\d+$/.test(length) ? Number(length) : null,
    isEncoded,
  }
}

const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value[0] : value
