import type { LookupFunction } from 'node:net'
import { Agent, request, type Dispatcher } from 'undici'
import { AddressGuard, AddressRefused } from '../../shared/address-guard.ts'
import { ImportError } from '../../shared/errors.ts'
import { stagedSource } from '../../shared/staging/staging.ts'
import { capped, downloadError, downloadMinutes, longestDownload, shown, tooLarge } from './download.ts'
import { downloadByFtp } from './ftp-url.ts'
import { gunzip, isGzipName, type Source, type SourceContext } from './source.ts'

/**
 * Downloads over http and https. Redirects are followed by hand, because every hop's address is checked; what is
 * connected to is the address that was checked. Three bounds, none of them undici's (its own count compressed bytes and
 * gaps between them): 200 MB after decoding, 15 minutes in all, five redirects.
 */

const mostRedirects = 5
const redirectStatuses = new Set([301, 302, 303, 307, 308])
const silenceMs = 60_000
const connectMs = 30_000

export const httpSource: Source = async (document, context) => {
  const url = new URL(document.source.url!)
  const deadline = AbortSignal.timeout(downloadMinutes * 60_000)
  const signal = AbortSignal.any([context.signal, deadline])
  const guard = new AddressGuard(context.allowedHosts)
  const agent = new Agent({
    connect: { lookup: guardedLookup(guard), timeout: connectMs },
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    connections: 1,
    pipelining: 1,
  })
  try {
    const response = await follow(url, { agent, guard, signal })
    if (response instanceof URL) {
      await downloadByFtp(response, document, context)
      return
    }
    await context.staging.write(
      stagedSource(document._id),
      bounded(response, document.source.filename, context),
    )
  } catch (error) {
    throw downloadError(error, url, { deadline, stopped: context.signal })
  } finally {
    await agent.destroy()
  }
}

/** For undici's connector: looks the name up and answers with the addresses that passed. Literals don't come here. */
function guardedLookup(guard: AddressGuard): LookupFunction {
  return (hostname, options, callback) => {
    guard.resolve(hostname).then(
      (answers) => {
        if (options.all === true) callback(null, answers)
        else callback(null, answers[0]!.address, answers[0]!.family)
      },
      (error: unknown) => {
        callback(error as Error, '', 0)
      },
    )
  }
}

interface FollowOptions {
  agent: Agent
  guard: AddressGuard
  signal: AbortSignal
}

/** The response at the end of the redirects, or the ftp address that they lead to. */
async function follow(
  first: URL,
  { agent, guard, signal }: FollowOptions,
): Promise<Dispatcher.ResponseData | URL> {
  let url = first
  let credentials = credentialsOf(first)
  for (let hops = 0; ; hops += 1) {
    const problem = guard.literalProblem(url.hostname)
    if (problem !== null) throw new AddressRefused(problem)
    const response = await request(withoutCredentials(url), {
      dispatcher: agent,
      signal,
      headers: {
        'accept-encoding': 'identity',
        'user-agent': 'Rollcall',
        ...(credentials === null ? {} : { authorization: credentials }),
      },
    })
    if (!redirectStatuses.has(response.statusCode)) {
      if (response.statusCode === 200) return response
      await response.body.dump()
      throw new ImportError(
        'source_unavailable',
        `${shown(url)} answered with status ${response.statusCode}, expected 200`,
        { retryable: true },
      )
    }
    await response.body.dump()
    if (hops === mostRedirects)
      throw new ImportError(
        'source_unavailable',
        `more than ${mostRedirects} redirects, the last one from ${shown(url)}`,
        { retryable: true },
      )
    const next = redirectTarget(response.headers['location'], url)
    if (!isHttp(next)) return next
    credentials = credentialsOf(next) ?? (next.origin === url.origin ? credentials : null)
    url = next
  }
}

function redirectTarget(location: string | string[] | undefined, from: URL): URL {
  const text = Array.isArray(location) ? location[0] : location
  const target = text === undefined ? null : URL.parse(text, from)
  if (target === null || !(isHttp(target) || target.protocol === 'ftp:' || target.protocol === 'ftps:')) {
    throw new ImportError(
      'source_unavailable',
      `${shown(from)} redirects to ${target === null ? 'nowhere' : `a ${target.protocol} address`}, expected http, https, ftp or ftps`,
      { retryable: true },
    )
  }
  return target
}

const isHttp = (url: URL): boolean => url.protocol === 'http:' || url.protocol === 'https:'

function credentialsOf(url: URL): string | null {
  if (url.username === '' && url.password === '') return null
  return `Basic ${Buffer.from(`${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`).toString('base64')}`
}

function withoutCredentials(url: URL): URL {
  const bare = new URL(url)
  bare.username = bare.password = ''
  return bare
}

/** The body, decoded and unpacked, as long as it stays within the bound. */
async function* bounded(
  response: Dispatcher.ResponseData,
  filename: string,
  context: SourceContext,
): AsyncGenerator<Uint8Array> {
  const encoding = headerText(response.headers['content-encoding'])?.toLowerCase() ?? 'identity'
  const announced = Number(headerText(response.headers['content-length']) ?? Number.NaN)
  if (encoding === 'identity' && announced > longestDownload && !isGzipName(filename)) throw tooLarge()
  if (!['identity', '', 'gzip', 'x-gzip'].includes(encoding)) {
    throw new ImportError(
      'source_unavailable',
      `the file came with Content-Encoding ${JSON.stringify(encoding)}, expected gzip or none`,
      { retryable: true },
    )
  }
  const received = counted(response.body as AsyncIterable<Buffer>, (bytes) => {
    context.onProgress(bytes, Number.isFinite(announced) ? announced : null)
  })
  const decoded = encoding.endsWith('gzip') ? gunzip(received, 'the body') : received
  yield* capped(isGzipName(filename) ? unpackedIfGzip(decoded) : decoded)
}

async function* counted(
  pieces: AsyncIterable<Buffer>,
  onBytes: (total: number) => void,
): AsyncGenerator<Buffer> {
  let total = 0
  for await (const piece of pieces) {
    total += piece.length
    onBytes(total)
    yield piece
  }
}

/** Servers like to say "Content-Encoding: gzip" of a `.gz` file: then it is unpacked already. */
async function* unpackedIfGzip(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const iterator = pieces[Symbol.asyncIterator]()
  let head: Buffer = Buffer.alloc(0)
  while (head.length < 2) {
    const next = await iterator.next()
    if (next.done === true) break
    head = Buffer.concat([head, next.value])
  }
  const whole = (async function* () {
    yield head
    yield* { [Symbol.asyncIterator]: () => iterator }
  })()
  if (head[0] === 0x1f && head[1] === 0x8b) yield* gunzip(whole, 'the file')
  else yield* whole
}

const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(', ') : value
