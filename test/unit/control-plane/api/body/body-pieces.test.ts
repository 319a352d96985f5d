import type { IncomingMessage } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { bodyPieces, type BodyTimeouts } from '../../../../../control-plane/api/body/body-pieces.ts'
import { Stopping } from '../../../../../control-plane/api/stopping.ts'

async function bytesOf(body: Readable, timeouts: BodyTimeouts): Promise<number> {
  let bytes = 0
  const request = Object.assign(body, { headers: {} }) as unknown as IncomingMessage
  for await (const piece of bodyPieces(request, 1_000, timeouts)) bytes += piece.length
  return bytes
}

const refusal = { code: 'internal_error', status: 503, headers: { 'Retry-After': '1' } }

t.test('a body that arrives while the process stops is read to its end', async (t) => {
  const body = new PassThrough()
  const stop = new AbortController()
  const bytes = bytesOf(body, { stopping: stop.signal, stalledMs: 5_000, arrivingMs: 60_000 })
  for (let i = 0; i < 20; i += 1) {
    if (i === 5) stop.abort()
    body.write('x')
    await sleep(5)
  }
  body.end()
  t.equal(await bytes, 20)
})

t.test('one that stands still is given up when the process stops, and not before', async (t) => {
  for (const isStopping of [true, false]) {
    const body = new PassThrough()
    const stop = new AbortController()
    if (isStopping) stop.abort()
    const bytes = bytesOf(body, { stopping: stop.signal, stalledMs: 20 })
    body.write('x')
    if (!isStopping) {
      t.equal(await Promise.race([bytes, sleep(100, 'still waited for')]), 'still waited for')
      stop.abort()
    }
    await t.rejects(bytes, refusal)
  }
})

t.test('a body that begins late in a stop has no more time than the others', async (t) => {
  const stop = new AbortController()
  stop.abort(new Stopping())
  await sleep(200)
  const body = new PassThrough()
  body.write('x')
  const bytes = bytesOf(body, { stopping: stop.signal, stalledMs: 10_000, arrivingMs: 300 })
  await t.rejects(Promise.race([bytes, sleep(250, 'still waited for')]), refusal)
})

t.test('a body that never ends is given up in time to be answered', async (t) => {
  const body = new PassThrough()
  const more = setInterval(() => body.write('x'), 1)
  t.teardown(() => clearInterval(more))
  await t.rejects(
    bytesOf(body, { stopping: AbortSignal.abort(), stalledMs: 10_000, arrivingMs: 50 }),
    refusal,
  )
})
