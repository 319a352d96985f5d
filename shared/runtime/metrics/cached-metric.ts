import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, Gauge, type Registry } from 'prom-client'
import { clock } from '../clock.ts'

/**
 * A cached metric that has to be read from the database or the disk. Scrapes share one reading for `freshMs`, or for
 * 200 times as long as it took. So readings keep the database or disk busy for 0.5 % of the time, however many scrapes
 * come. The limit is `maxAgeMs`, because alerts need recent values. A scrape waits up to `timeoutMs` for a reading and
 * then gets null. A slower reading is shown by the scrapes after it, which come every 10 to 120 s. The next reading
 * begins soon and before that one is stale, so that its gauges don't come and go, and are right soon after the cause of
 * the delay is gone. A reading that failed is null for `freshMs`.
 *
 * Control planes have the installation's metrics too, because an alert for "no engine" can't come from an engine. The
 * driver's command events would be no source: the driver decodes every reply a second time for them.
 */
export class CachedMetric<T> {
  readonly #read: () => Promise<T>
  readonly #freshMs: number
  readonly #maxAgeMs: { inTime: number; late: number }
  readonly #timeoutMs: number
  #last: { value: T | null; nextReadAt: number; staleAt: number } | null = null
  #reading: { done: Promise<T | null>; timeoutAt: number } | null = null

  constructor(
    read: () => Promise<T>,
    options: { freshMs?: number; maxAgeMs?: number; timeoutMs?: number } = {},
  ) {
    this.#read = read
    this.#freshMs = options.freshMs ?? 500
    this.#maxAgeMs = { inTime: options.maxAgeMs ?? 5_000, late: options.maxAgeMs ?? 125_000 }
    this.#timeoutMs = options.timeoutMs ?? 1_000
  }

  async value(): Promise<T | null> {
    if (this.#last !== null && clock.monotonicMs() < this.#last.staleAt) {
      const { value, nextReadAt } = this.#last
      if (clock.monotonicMs() >= nextReadAt) this.#begin()
      return value
    }
    const { done, timeoutAt } = this.#begin()
    const leftMs = timeoutAt - clock.monotonicMs()
    if (leftMs <= 0) return null
    const answered = new AbortController()
    const timedOut = sleep(leftMs, null, { signal: answered.signal }).catch(() => null)
    try {
      return await Promise.race([done, timedOut])
    } finally {
      answered.abort()
    }
  }

  #begin() {
    return (this.#reading ??= {
      done: this.#readOnce(),
      timeoutAt: clock.monotonicMs() + this.#timeoutMs,
    })
  }

  async #readOnce(): Promise<T | null> {
    const startedAt = clock.monotonicMs()
    // A failed reading is missing from the scrape; rollcall_database_up shows the cause.
    const value = await this.#read().catch(() => null)
    const now = clock.monotonicMs()
    const tookMs = now - startedAt
    const isLate = tookMs > this.#timeoutMs
    const maxAgeMs = isLate ? this.#maxAgeMs.late : this.#maxAgeMs.inTime
    const validMs = Math.max(this.#freshMs, value === null ? 0 : Math.min(200 * tookMs, maxAgeMs))
    const nextReadMs = isLate ? Math.min(validMs / 2, lateReadMs) : validMs
    this.#last = { value, nextReadAt: now + nextReadMs, staleAt: now + validMs }
    this.#reading = null
    return value
  }
}

/** A reading that came late is read again after this time, or a half of its age if that is less. */
const lateReadMs = 12_500

interface CachedMetricGauge<T> {
  name: string
  help: string
  label?: string
  /** It is exported as a counter: the source counts, and this is its present value. */
  isCounter?: true
  /** The value, or with a label the values by label value. */
  of: (stats: T) => number | Record<string, number>
}

/** Registers gauges of a cached metric. They are missing from a scrape when the metric has no value. */
export function registerGauges<T>(
  registry: Registry,
  metric: Pick<CachedMetric<T>, 'value'>,
  gauges: CachedMetricGauge<T>[],
): void {
  for (const { name, help, label, isCounter, of } of gauges) {
    const labelNames = label === undefined ? [] : [label]
    const configuration = { name, help, labelNames, registers: [registry] }
    const collect = async function (this: Counter | Gauge): Promise<void> {
      const stats = await metric.value()
      // `reset` would set a metric without a label to 0.
      if (label === undefined) this.remove()
      else this.reset()
      if (stats === null) return
      const values = of(stats)
      const show = (labels: Record<string, string>, value: number) =>
        this instanceof Gauge ? this.set(labels, value) : this.inc(labels, value)
      if (typeof values === 'number') show({}, values)
      else if (label !== undefined)
        for (const [key, value] of Object.entries(values)) show({ [label]: key }, value)
    }
    if (isCounter === true) new Counter({ ...configuration, collect })
    else new Gauge({ ...configuration, collect })
  }
}
