import { setTimeout as sleep } from 'node:timers/promises'
import { Gauge, type Registry } from 'prom-client'
import { clock } from '../clock.ts'

/**
 * A cached metric that has to be read from the database or the disk. Scrapes share one reading for `freshMs`, or for 200
 * times as long as it took: a process then keeps what it reads busy for 0.5 % of the time, however many scrapes come. The
 * limit is `maxAgeMs`, because alerts need recent values. A scrape waits for a reading for `timeoutMs` at most and gets null
 * then. A slower reading is shown by the scrapes after it, which come every 10 s, and the next one begins before it is
 * stale, so that its gauges don't come and go. A reading that failed is null for `freshMs`.
 */
export class CachedMetric<T> {
  readonly #read: () => Promise<T>
  readonly #freshMs: number
  readonly #maxAgeMs: { seen: number; unseen: number }
  readonly #timeoutMs: number
  #last: { value: T | null; againAt: number; staleAt: number } | null = null
  #reading: { done: Promise<T | null>; timeoutAt: number } | null = null

  constructor(
    read: () => Promise<T>,
    options: { freshMs?: number; maxAgeMs?: number; timeoutMs?: number } = {},
  ) {
    this.#read = read
    this.#freshMs = options.freshMs ?? 500
    this.#maxAgeMs = { seen: options.maxAgeMs ?? 5_000, unseen: options.maxAgeMs ?? 25_000 }
    this.#timeoutMs = options.timeoutMs ?? 1_000
  }

  async value(): Promise<T | null> {
    if (this.#last !== null && clock.monotonicMs() < this.#last.staleAt) {
      const { value, againAt } = this.#last
      if (clock.monotonicMs() >= againAt) this.#begin()
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
    // Missing from the scrape is how a failure shows; rollcall_database_up says why.
    const value = await this.#read().catch(() => null)
    const now = clock.monotonicMs()
    const tookMs = now - startedAt
    const isUnseen = tookMs > this.#timeoutMs
    const maxMs = isUnseen ? this.#maxAgeMs.unseen : this.#maxAgeMs.seen
    const countsMs = Math.max(this.#freshMs, value === null ? 0 : Math.min(200 * tookMs, maxMs))
    this.#last = { value, againAt: now + (isUnseen ? countsMs / 2 : countsMs), staleAt: now + countsMs }
    this.#reading = null
    return value
  }
}

export interface CachedMetricGauge<T> {
  name: string
  help: string
  /** One label at most. */
  label?: string
  /** The value, or the values by the label's. */
  of: (stats: T) => number | Record<string, number>
}

/** Gauges of a figure. They are missing from a scrape when the figure is. */
export function registerGauges<T>(
  registry: Registry,
  metric: Pick<CachedMetric<T>, 'value'>,
  gauges: CachedMetricGauge<T>[],
): void {
  for (const { name, help, label, of } of gauges)
    new Gauge({
      name,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [registry],
      async collect() {
        const stats = await metric.value()
        // `reset` alone would leave a 0 where there is no label.
        if (label === undefined) this.remove()
        else this.reset()
        if (stats === null) return
        const values = of(stats)
        if (typeof values === 'number') this.set(values)
        else for (const [key, value] of Object.entries(values)) this.set({ [label!]: key }, value)
      },
    })
}
