import { PassThrough } from 'node:stream'
import { Client } from 'basic-ftp'
import { AddressGuard } from '../../shared/address-guard.ts'
import { stagedSource } from '../../shared/staging/staging.ts'
import { gunzip, isGzipName, type Source } from './source.ts'
import { capped, downloadError, downloadMinutes } from './download.ts'

/** Downloads over ftp and ftps (implicit TLS where port 990 is given, else explicit). */

const silenceMs = 60_000

export const ftpSource: Source = async (document, context) => {
  const url = new URL(document.source.url!)
  const deadline = AbortSignal.timeout(downloadMinutes * 60_000)
  const client = new Client(silenceMs)
  const abort = () => {
    client.close()
  }
  const signal = AbortSignal.any([context.signal, deadline])
  signal.addEventListener('abort', abort, { once: true })
  try {
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
    const path = decodeURIComponent(url.pathname.slice(1))
    const expected = await client.size(path).catch(() => null)
    const body = new PassThrough()
    client.trackProgress((info) => {
      context.onProgress(info.bytes, expected)
    })
    const download = client.downloadTo(body, path).then(
      () => body.end(),
      (error: unknown) => body.destroy(error as Error),
    )
    const pieces = body as AsyncIterable<Buffer>
    await context.staging.write(
      stagedSource(document._id),
      capped(isGzipName(document.source.filename) ? gunzip(pieces, 'the file') : pieces),
    )
    await download
  } catch (error) {
    throw downloadError(error, url, { deadline, stopped: context.signal })
  } finally {
    signal.removeEventListener('abort', abort)
    client.close()
  }
}
