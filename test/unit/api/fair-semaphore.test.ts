import t from 'tap'
import { FairSemaphore } from '../../../control-plane/api/fair-semaphore.ts'
import { createRequestSlots, searchWeight } from '../../../control-plane/api/request-slots.ts'

const semaphoreOf = (options: {
  maxRunning: number
  maxRunningPerOrganization?: number
  maxWaitMs?: number
}) =>
  new FairSemaphore({
    maxWaitingPerOrganization: 10,
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
