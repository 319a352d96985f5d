import { PassThrough } from 'node:stream'
import { Client } from 'basic-ftp'
import { AddressGuard } from '../../shared/address-guard.ts'
import type { ImportDocument } from '../../shared/schemas/import.ts'
import { stagedSource } from '../../shared/staging/staging.ts'
import { gunzip, isGzipName, type Source, type SourceContext } from './source.ts'
import { capped, downloadError, downloadMinutes } from './download.ts'

/** Downloads over ftp and ftps (implicit TLS where port 990 is given, else explicit). */

const silenceMs = 60_000

export const ftpSource: Source = (document, context) =>
  downloadByFtp(new URL(document.source.url!), document, context)

/** From a URL that may be another one than the import's: an http server may redirect here. */
export async function downloadByFtp(
  url: URL,
  document: ImportDocument,
  context: SourceContext,
): Promise<void> {
  const deadline = AbortSignal.timeout(downloadMinutes * 60_000)
  const client = new Client(silenceMs)
  const abort = () => {
    client.close()
  }
  const signal = AbortSignal.any([context.signal, deadline])
  signal.addEventListener('abort', abort, { once: true })
  try {
    const { hostname, path } = await connect(client, url, context)
    const expected = await client.size(path).catch(() => null)
    client.trackProgress((info) => {
      context.onProgress(info.bytes, expected)
    })
    const pieces = received(client, path)
    await context.staging.write(
      stagedSource(document._id),
      capped(isGzipName(document.source.filename) ? gunzip(pieces, `the file from ${hostname}`) : pieces),
    )
  } catch (error) {
    throw downloadError(error, url, { deadline, stopped: context.signal })
  } finally {
    signal.removeEventListener('abort', abort)
    client.close()
  }
}

async function connect(
  client: Client,
  url: URL,
  context: SourceContext,
): Promise<{ hostname: string; path: string }> {
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const [address] = await new AddressGuard(context.allowedHosts).resolve(hostname)
  await client.access({
    host: address!.address,
    port: url.port === '' ? 21 : Number(url.port),
    user: url.username === '' ? 'anonymous' : decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    secure: url.protocol === 'ftps:' ? (url.port === '990' ? 'implicit' : true) : false,
    secureOptions: { servername: hostname, host: hostname },
  })
  return { hostname, path: decodeURIComponent(url.pathname.slice(1)) }
}

/** The file's bytes as they come; what the server says instead of sending them is thrown. */
async function* received(client: Client, path: string): AsyncGenerator<Buffer> {
  const body = new PassThrough()
  // It may break off before anybody reads: the reader is told, and nobody else.
  body.on('error', () => undefined)
  const download = client.downloadTo(body, path).then(
    () => body.end(),
    (error: unknown) => body.destroy(error as Error),
  )
  yield* body as AsyncIterable<Buffer>
  await download
}
