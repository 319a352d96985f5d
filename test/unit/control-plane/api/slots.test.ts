import { once } from 'node:events'
import { connect, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import t from 'tap'
import { clock } from '../../../../shared/runtime/clock.ts'
import { requestLocals } from '../../../../control-plane/api/request-locals.ts'
import { acquireUntilClosed, createSlots, Slots, type SlotKind } from '../../../../control-plane/api/slots.ts'

const slotsOf = (kind: Omit<SlotKind, 'maxWaiting'> & { maxWaiting?: number }, refusing?: AbortSignal) =>
  new Slots({ maxWaiting: 10, ...kind }, refusing ?? new AbortController().signal)

const allSlots = (refusing = new AbortController().signal, inlineLimit = 16) =>
  createSlots(refusing, { HTTP_INLINE_LIMIT_MB: inlineLimit })

/** How much of one organization's work begins at once. */
async function atOnce(slots: Slots): Promise<number> {
  let running = 0
  for (let i = 0; i < 100; i += 1)
    slots.acquire({ organizationId: 1 }).then(
      () => (running += 1),
      () => undefined,
    )
  await new Promise(setImmediate)
  return running
}

t.test('an organization gets more only while it leaves as much free as it has', async (t) => {
  const slots = slotsOf({ atOnce: 16, ofOrganization: 4 })
  const running: number[] = []
  for (const organizationId of [1, 2, 3, 4, 5, 6, 7])
    for (let i = 0; i < 6; i += 1)
      void slots.acquire({ organizationId }).then(() => running.push(organizationId))
  await new Promise(setImmediate)
  t.same(running, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6])
})

t.test("a partner's key gets half of its organization's slots and queue", async (t) => {
  const slots = slotsOf({ atOnce: 20, ofOrganization: 5, maxWaiting: 6 })
  const running: unknown[] = []
  const releases: (() => void)[] = []
  const acquire = (partnerKeyId?: number) =>
    slots.acquire({ organizationId: 1, partnerKeyId }).then((release) => {
      running.push(partnerKeyId)
      releases.push(release)
    })
  const begun = async () => {
    await new Promise(setImmediate)
    return running.splice(0)
  }
  for (let i = 0; i < 5; i += 1) void acquire(7)
  t.same(await begun(), [7, 7])
  for (const key of [8, undefined, undefined]) void acquire(key)
  t.same(await begun(), [8, undefined, undefined], 'the others pass those of the key that wait')
  const refused = t.rejects(slots.acquire({ organizationId: 1, partnerKeyId: 7 }), {
    code: 'not_authorized',
    status: 429,
  })
  void acquire(undefined)
  t.same(await begun(), [])
  releases[3]!()
  t.same(await begun(), [undefined])
  releases[0]!()
  t.same(await begun(), [7])
  await refused
})

t.test('work that waits for too long is refused', async (t) => {
  const slots = slotsOf({ atOnce: 2, ofOrganization: 1, maxWaitMs: 20 })
  await slots.acquire({ organizationId: 1 })
  await t.rejects(slots.acquire({ organizationId: 1 }), {
    code: 'internal_error',
    status: 503,
    headers: { 'Retry-After': '5' },
  })
  await slots.acquire({ organizationId: 2 })
})

t.test('an organization waits for what its work has cost, after it has run', async (t) => {
  let now = 0
  const { monotonicMs } = clock
  clock.monotonicMs = () => now
  t.teardown(() => (clock.monotonicMs = monotonicMs))
  const slots = slotsOf({ atOnce: 1, ofOrganization: 1, maxWaiting: 100 })
  const begun: number[] = []
  const send = (organizationId: number, ms: number, count: number) =>
    Array.from({ length: count }, () =>
      slots.run({ organizationId }, () => {
        begun.push(organizationId)
        now += ms
        return Promise.resolve()
      }),
    )
  await Promise.all([...send(1, 5, 4), ...send(2, 1, 16)])
  t.equal(begun.join(''), '12222212222212222212')
})

t.test('three searches on thousands of lists run at once, eight pages, 64 requests', async (t) => {
  for (const [name, count] of [
    ['requests', 64],
    ['pages', 8],
    ['searches', 3],
    ['costly', 1],
    ['largeBodies', 6],
    ['largeReplies', 4],
    ['transfers', 64],
    ['takes', 1],
    ['passwords', 2],
  ] as const) {
    const stopping = new AbortController()
    t.equal(await atOnce(allSlots(stopping.signal)[name]), count, name)
    stopping.abort()
  }
})

t.test('the larger bodies may be, the fewer are held at once', async (t) => {
  for (const [limit, count] of [
    [1, 6],
    [16, 6],
    [32, 3],
    [64, 2],
  ] as const) {
    const stopping = new AbortController()
    t.equal(await atOnce(allSlots(stopping.signal, limit).largeBodies), count, `${limit} MiB`)
    stopping.abort()
  }
})

/** Requests of many organizations: one ends at a time, and its organization sends the next one. */
async function busyRequests(slots: Slots, organizations: number) {
  const running: { organizationId: number; release: () => void }[] = []
  const send = (organizationId: number) =>
    void slots.acquire({ organizationId }).then(
      (release) => running.push({ organizationId, release }),
      () => undefined,
    )
  for (let i = 0; i < organizations * 70; i += 1) send(1 + (i % organizations))
  await new Promise(setImmediate)
  return async function endOne(): Promise<void> {
    const { organizationId, release } = running.shift()!
    release()
    send(organizationId)
    await new Promise(setImmediate)
  }
}

for (const name of ['requests', 'pages', 'searches'] as const)
  for (const organizations of [12, 32])
    t.test(`${name} begin soon while ${organizations} organizations send many`, async (t) => {
      const stopping = new AbortController()
      t.teardown(() => stopping.abort())
      const slots = allSlots(stopping.signal)[name]
      const endOne = await busyRequests(slots, organizations)
      for (const organizationId of [1_001, 1_002]) {
        let release: (() => void) | null = null
        void slots.acquire({ organizationId }).then((begun) => (release = begun))
        let ended = 0
        for (; release === null && ended < 20_000; ended += 1) await endOne()
        t.ok(ended < 40, `it began after ${ended} requests of others`)
        ;(release as (() => void) | null)?.()
      }
    })

t.test('a large reply begins while others are read slowly', async (t) => {
  const { largeReplies } = allSlots()
  const stop = new AbortController()
  const busy = Array.from({ length: 11 * 4 }, async (_, i) => {
    while (!stop.signal.aborted) {
      const release = await largeReplies.acquire({ organizationId: 1 + (i % 11) })
      await sleep(5)
      release()
    }
  })
  await sleep(20)
  for (let i = 0; i < 3; i += 1) (await largeReplies.acquire({ organizationId: 100 }))()
  t.pass('all of them began')
  stop.abort()
  await Promise.all(busy)
})

t.test('the work of a request whose client has left keeps its slot until it ends', async (t) => {
  const slots = slotsOf({ atOnce: 1, ofOrganization: 1 })
  const { promise: worked, resolve: endWork } = Promise.withResolvers<undefined>()
  const { promise: closed, resolve: close } = Promise.withResolvers<undefined>()
  const app = express().get('/', (_request, response) => {
    response.once('close', () => close(undefined))
    return (requestLocals(response).work = acquireUntilClosed(slots, response, { organizationId: 1 }).then(
      () => worked,
    ))
  })
  const server = app.listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nhost: h\r\n\r\n')
  await once(server, 'request')
  socket.destroy()
  await closed
  let isNext = false
  const next = slots.acquire({ organizationId: 1 }).then(() => (isNext = true))
  await sleep(20)
  t.notOk(isNext, 'the next one waits')
  endWork(undefined)
  await next
})
