import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { AddressGuard } from '../../../../shared/net/address-guard.ts'
import { downloadBounds } from '../../../../shared/net/download-bounds.ts'
import { downloadedContent } from '../../../../shared/net/download.ts'
import { loadSettings } from '../../../../shared/runtime/config.ts'
import { listeningPort } from '../../../helpers/listening-port.ts'
import { repeatWhile } from '../../../helpers/repeat-while.ts'

/** What bounds a download holds before its body, in the middle of it and at its end, at bounds of a few bytes. */

const guard = new AddressGuard(loadSettings({ URL_IMPORT_ALLOW: '127.0.0.1' }).URL_IMPORT_ALLOW)
const bounds = { ...downloadBounds, bytes: 1_000, silenceMs: 5_000, redirects: 2 }

interface Downloaded {
  bytes: number
  /** Of the last call, and how many calls there were. */
  progress: [received: number, expected: number | null] | null
  error: { code?: string; retryable?: boolean; message: string } | null
}

/** Downloads `/` from a server that answers so. */
async function download(
  t: Test,
  listener: RequestListener,
  options: {
    remainingMs?: number
    silenceMs?: number
    signal?: AbortSignal
    path?: string
    onProgress?: (received: number) => unknown
  } = {},
): Promise<Downloaded> {
  const { remainingMs = 60_000, silenceMs = 60_000, signal = AbortSignal.any([]), path = '/' } = options
  const server = createServer(listener).listen(0, '127.0.0.1')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  const found: Downloaded = { bytes: 0, progress: null, error: null }
  try {
    const url = new URL(`http://127.0.0.1:${listeningPort(server)}${path}`)
    const pieces = downloadedContent(url, {
      ...{ guard, bounds: { ...bounds, silenceMs }, signal, remainingMs },
      onProgress(received, expected) {
        found.progress = [received, expected]
        options.onProgress?.(received)
      },
    })
    for await (const piece of pieces) found.bytes += piece.length
  } catch (error) {
    found.error = error as Error
  }
  return found
}

const refused = { code: 'source_refused', retryable: false }
const later = { code: 'source_unavailable', retryable: true }
const tooLarge = { ...refused, message: /^the file has more than 0.001 MB/ }

t.test('a file has at most the maximum of bytes, announced or not, as sent and decoded', async (t) => {
  for (const [bytes, isTaken] of [
    [1_000, true],
    [1_001, false],
  ] as const) {
    const body = Buffer.alloc(bytes, 'x')
    const announced = await download(t, (_, response) => response.end(body))
    const chunked = await download(t, (_, response) => {
      response.write(body.subarray(0, 600))
      response.end(body.subarray(600))
    })
    const packed = await download(t, (_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(body))
    })
    if (isTaken) {
      t.match(announced, { bytes, progress: [bytes, bytes], error: null })
      t.match(chunked, { bytes, progress: [bytes, null], error: null })
      t.match(packed, { bytes, error: null })
      t.equal(packed.progress?.[0], gzipSync(body).length, 'progress counts bytes of the network')
    } else {
      t.match(announced, { bytes: 0, progress: null, error: tooLarge }, 'refused before its body')
      t.match(chunked, { error: tooLarge }, 'refused in its middle')
      t.match(packed, { error: tooLarge })
      t.ok(Math.max(chunked.bytes, packed.bytes) <= 1_000, 'nothing beyond the maximum is passed on')
    }
  }
})

t.test('a body that ends before its announced end may be tried again', async (t) => {
  const cut = await download(t, (_, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('0123456789', () => response.destroy())
  })
  t.match(cut, { progress: [10, 100], error: { ...later, message: /after 10 of 100 bytes/ } })
})

t.test('a server that falls silent in the middle may be tried again', async (t) => {
  // A process that stands still hears nothing of the server either.
  const silent = await repeatWhile(
    () => download(t, (_, response) => response.write('0123456789'), { silenceMs: 2_000 }),
    ({ bytes }) => bytes === 0,
  )
  t.match(silent, { bytes: 10, error: { ...later, message: /broke off after 10 bytes/ } })
})

t.test('a byte now and then is no silence, and ends with the time of all tries', async (t) => {
  const trickle: RequestListener = (_, response) => {
    const timer = setInterval(() => response.write('x'), 50)
    response.once('close', () => clearInterval(timer))
  }
  const { error, bytes } = await download(t, trickle, { remainingMs: 5_000 })
  t.match(error, { ...refused, message: /had not sent the whole file after 15 minutes/ })
  t.ok(bytes > 1)
})

t.test('a stop in the middle of a body is thrown as it is', async (t) => {
  const stop = new AbortController()
  const reason = new Error('the import was cancelled')
  const { error, progress } = await download(t, (_, response) => response.write('0123456789'), {
    signal: stop.signal,
    onProgress: (received) => received === 10 && stop.abort(reason),
  })
  t.equal(error, reason)
  t.same(progress, [10, null])
})

t.test('so many redirects are followed, and not one more', async (t) => {
  const countDown: RequestListener = ({ url }, response) => {
    const left = Number(url!.slice(1))
    if (left === 0) response.end('here')
    else response.writeHead(302, { location: `/${left - 1}` }).end()
  }
  t.match(await download(t, countDown, { path: '/2' }), { bytes: 4, error: null })
  t.match(await download(t, countDown, { path: '/3' }), {
    ...{ bytes: 0, error: { ...later, message: /more than 2 redirects/ } },
  })
})
