import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import t from 'tap'
import { clock } from '../../../../../shared/runtime/clock.ts'
import { CachedMetric, registerGauges } from '../../../../../shared/runtime/metrics/cached-metric.ts'

/** A metric whose value is the number of its readings. */
function countedMetric(takesMs: number, options: ConstructorParameters<typeof CachedMetric>[1]) {
  let count = 0
  const metric = new CachedMetric(async () => {
    count += 1
    await sleep(takesMs)
    return count
  }, options)
  return { metric, readings: () => count }
}

t.test('scrapes at the same time and shortly after share one reading', async (t) => {
  const { metric, readings } = countedMetric(1, { freshMs: 600_000 })
  t.same(await Promise.all([metric.value(), metric.value(), metric.value()]), [1, 1, 1])
  t.equal(await metric.value(), 1)
  t.equal(readings(), 1)
})

t.test('a reading that took long counts for longer', async (t) => {
  const { metric, readings } = countedMetric(50, { freshMs: 0 })
  await metric.value()
  await sleep(20)
  await metric.value()
  t.equal(readings(), 1, 'for 200 times as long')
})

t.test('a reading is not cached for longer than it is told to', async (t) => {
  const { metric } = countedMetric(50, { freshMs: 0, maxAgeMs: 10 })
  await metric.value()
  await sleep(20)
  t.equal(await metric.value(), 2)
})

t.test('a reading that no scrape waited for shows in every scrape after it', async (t) => {
  let now = 0
  const { monotonicMs } = clock
  clock.monotonicMs = () => now
  t.teardown(() => (clock.monotonicMs = monotonicMs))
  for (const seconds of [10, 60, 120]) {
    now = 0
    const answers: ((value: number) => void)[] = []
    const metric = new CachedMetric(() => new Promise<number>((resolve) => answers.push(resolve)), {
      timeoutMs: 5,
    })
    t.equal(await metric.value(), null)
    for (let scrape = 1; scrape < 10; scrape += 1) {
      now = (scrape - 1) * seconds * 1_000 + 3_000
      answers.shift()?.(scrape)
      await sleep(0)
      now = scrape * seconds * 1_000
      t.type(await metric.value(), 'number', `scrape ${scrape} at each ${seconds} s`)
    }
  }
})

t.test('a reading that took long to fail is done again as soon as any', async (t) => {
  let isAway = true
  const metric = new CachedMetric(
    async () => {
      await sleep(50)
      if (isAway) throw new Error('away')
      return 1
    },
    { freshMs: 10, maxAgeMs: 600_000 },
  )
  t.equal(await metric.value(), null)
  isAway = false
  await sleep(20)
  t.equal(await metric.value(), 1)
})

t.test('no scrape waits for a reading that hangs, and its gauges are missing until it ends', async (t) => {
  const registry = new Registry()
  let answer: (value: number) => void = () => undefined
  const metric = new CachedMetric(() => new Promise<number>((resolve) => (answer = resolve)), {
    freshMs: 600_000,
    timeoutMs: 20,
  })
  registerGauges(registry, metric, [
    { name: 'rollcall_alone', help: 'x', of: (value) => value },
    { name: 'rollcall_by_kind', help: 'x', label: 'kind', of: (value) => ({ a: value }) },
  ])
  t.notMatch(await registry.metrics(), /^rollcall/m)
  t.notMatch(await registry.metrics(), /^rollcall/m, 'who comes later waits for it no more')
  answer(7)
  await sleep(0)
  const text = await registry.metrics()
  t.match(text, /^rollcall_alone 7$/m)
  t.match(text, /^rollcall_by_kind\{kind="a"\} 7$/m)
})

t.test('a reading that fails leaves its gauges out, also those that had a value', async (t) => {
  const registry = new Registry()
  let isAway = false
  const metric = new CachedMetric(
    async () => {
      if (isAway) throw new Error('away')
      return 1
    },
    { freshMs: 0 },
  )
  registerGauges(registry, metric, [{ name: 'rollcall_alone', help: 'x', of: (value) => value }])
  t.match(await registry.metrics(), /^rollcall_alone 1$/m)
  isAway = true
  while (/^rollcall_alone/m.test(await registry.metrics())) await sleep(5)
  t.pass()
})
