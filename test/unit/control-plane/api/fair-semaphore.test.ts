import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { FairSemaphore } from '../../../../control-plane/api/fair-semaphore.ts'
import {
  createRequestSlots,
  maxPageWeight,
  searchWeight,
} from '../../../../control-plane/api/request-slots.ts'

const semaphoreOf = ({
  maxWaiting = 10,
  ...options
}: {
  maxRunning: number
  maxRunningPerOrganization?: number
  maxWaitMs?: number
  maxWaiting?: number
}) =>
  new FairSemaphore({
    maxWaitingPerOrganization: maxWaiting,
    tooMany: { message: 'too many', retryAfterSeconds: 5, delayMs: { min: 0, max: 0 } },
    refusing: new AbortController().signal,
    stoppingMessage: 'stopping',
    ...options,
  })

t.test('an organization gets more only while it leaves as much free as it has', async (t) => {
  const semaphore = semaphoreOf({ maxRunning: 16, maxRunningPerOrganization: 4 })
  const running: number[] = []
  for (const organizationId of [1, 2, 3, 4, 5, 6, 7])
    for (let i = 0; i < 6; i += 1)
      void semaphore.acquire({ organizationId }).then(() => running.push(organizationId))
  await new Promise(setImmediate)
  t.same(running, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6])
})

t.test('heavy work has slots of its own, and work that ends frees several', async (t) => {
  const semaphore = semaphoreOf({ maxRunning: 16, maxRunningPerOrganization: 8 })
  const begun: string[] = []
  const begin = (name: string, weight: number) =>
    semaphore.acquire({ organizationId: 1 }, weight).then((release) => {
      begun.push(name)
      return release
    })
  const release = await begin('heavy', 6)
  const light = [begin('a', 1), begin('b', 1), begin('c', 1), begin('d', 1)]
  await Promise.all(light.slice(0, 2))
  t.same(begun, ['heavy', 'a', 'b'])
  release()
  release()
  await Promise.all(light)
  t.same(begun, ['heavy', 'a', 'b', 'c', 'd'])
})

t.test('work that waits for too long is refused, and leaves its slot to lighter work', async (t) => {
  const semaphore = semaphoreOf({ maxRunning: 4, maxWaitMs: 20 })
  await semaphore.acquire({ organizationId: 1 }, 2)
  await t.rejects(semaphore.acquire({ organizationId: 1 }, 2), {
    code: 'internal_error',
    status: 503,
    headers: { 'Retry-After': '5' },
  })
  await semaphore.acquire({ organizationId: 2 }, 2)
})

t.test('four searches on thousands of lists run at once, many on some lists', async (t) => {
  for (const [lists, atOnce] of [
    [64, 64],
    [640, 6],
    [2_000, 4],
    [10_000, 4],
  ] as const) {
    const stopping = new AbortController()
    const { requests } = createRequestSlots(stopping.signal)
    let running = 0
    const searches = Array.from({ length: 100 }, () =>
      requests.acquire({ organizationId: 1 }, searchWeight(lists)).then(() => (running += 1)),
    )
    await new Promise(setImmediate)
    t.equal(running, atOnce, `on ${lists} lists`)
    stopping.abort()
    await Promise.allSettled(searches)
  }
})

/** Light requests of many organizations: one ends at a time, and its organization sends the next one. */
async function lightRequests(semaphore: FairSemaphore, organizations: number) {
  const running: { organizationId: number; release: () => void }[] = []
  const send = (organizationId: number) =>
    void semaphore.acquire({ organizationId }).then(
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

for (const organizations of [12, 32])
  t.test(`heavy requests begin soon while ${organizations} organizations send light ones`, async (t) => {
    const stopping = new AbortController()
    t.teardown(() => stopping.abort())
    const { requests } = createRequestSlots(stopping.signal)
    const endOne = await lightRequests(requests, organizations)
    // A search, pages of a list, and both for an organization that sends light requests as well.
    for (const [organizationId, weight] of [
      [1_001, searchWeight(10_000)],
      [1_002, maxPageWeight],
      [1_003, maxPageWeight],
      [1, searchWeight(10_000)],
      [2, maxPageWeight],
    ] as const) {
      let release: (() => void) | null = null
      void requests.acquire({ organizationId }, weight).then((begun) => (release = begun))
      let ended = 0
      for (; release === null && ended < 20_000; ended += 1) await endOne()
      t.not(release, null, `weight ${weight} began after ${ended} light requests`)
      ;(release as (() => void) | null)?.()
    }
  })

t.test('a large reply begins while others are read slowly', async (t) => {
  const { largeReplies } = createRequestSlots(new AbortController().signal)
  const stop = new AbortController()
  const busy = Array.from({ length: 11 * 4 }, async (_, i) => {
    while (!stop.signal.aborted) {
      const release = await largeReplies.acquire({ organizationId: 1 + (i % 11) }, 2_000_000)
      await sleep(5)
      release()
    }
  })
  await sleep(20)
  for (let i = 0; i < 3; i += 1) (await largeReplies.acquire({ organizationId: 100 }, 16_000_000))()
  t.pass('all of them began')
  stop.abort()
  await Promise.all(busy)
})

t.test(
  "work that is too heavy for its organization's rest lets lighter work pass, but not for ever",
  async (t) => {
    const semaphore = semaphoreOf({ maxRunning: 100, maxRunningPerOrganization: 10, maxWaiting: 100 })
    const begun: string[] = []
    const begin = (name: string, weight: number) =>
      semaphore.acquire({ organizationId: 1 }, weight).then((release) => {
        begun.push(name)
        return release
      })
    const slow = await begin('slow', 5)
    const heavy = begin('heavy', 8)
    const releaseLight = await begin('light', 1)
    t.same(begun, ['slow', 'light'])
    releaseLight()
    const later = Array.from({ length: 60 }, (_, i) => begin(`light ${i}`, 1).then((release) => release()))
    await new Promise(setImmediate)
    const passed = begun.length
    t.ok(passed < 40, `${passed} passed`)
    slow()
    ;(await heavy)()
    t.equal(begun[passed], 'heavy')
    await Promise.all(later)
  },
)
