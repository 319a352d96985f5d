import { setTimeout as sleep } from 'node:timers/promises'
import { Gauge, type Registry } from 'prom-client'
import { clock } from '../clock.ts'

/**
 * A figure that has to be asked for: of the database, of the disk. Scrapes share one reading, which counts for
 * `freshMs`, or for 200 times as long as it took, so that however many scrape, a process keeps what it asks busy for
 * 0.5 % of the time; but never for longer than `mostFreshMs`, since a reading may take long for other reasons than its
 * size, and alerts need what is true now. Nobody waits for a reading longer than `patienceMs`: who asks gets null
 * then. A reading that failed is null too, for `freshMs`.
 */
export class Figure<T> {
  readonly #read: () => Promise<T>
  readonly #freshMs: number
  readonly #mostFreshMs: number
  readonly #patienceMs: number
  #last: { value: T | null; staleAt: number } | null = null
  #reading: { done: Promise<T | null>; impatientAt: number } | null = null

  constructor(
    read: () => Promise<T>,
    options: { freshMs?: number; mostFreshMs?: number; patienceMs?: number } = {},
  ) {
    this.#read = read
    this.#freshMs = options.freshMs ?? 500
    this.#mostFreshMs = Math.max(this.#freshMs, options.mostFreshMs ?? 5_000)
    this.#patienceMs = options.patienceMs ?? 1_000
  }

  async value(): Promise<T | null> {
    if (this.#last !== null && clock.monotonicMs() < this.#last.staleAt) return this.#last.value
    this.#reading ??= { done: this.#readOnce(), impatientAt: clock.monotonicMs() + this.#patienceMs }
    const { done, impatientAt } = this.#reading
    const leftMs = impatientAt - clock.monotonicMs()
    if (leftMs <= 0) return null
    const answered = new AbortController()
    const patience = sleep(leftMs, null, { signal: answered.signal }).catch(() => null)
    try {
      return await Promise.race([done, patience])
    } finally {
      answered.abort()
    }
  }

  async #readOnce(): Promise<T | null> {
    const startedAt = clock.monotonicMs()
    // Missing from the scrape is how a failure shows; rollcall_database_up says why.
    const value = await this.#read().catch(() => null)
    const now = clock.monotonicMs()
    const slowMs = value === null ? 0 : Math.min(200 * (now - startedAt), this.#mostFreshMs)
    this.#last = { value, staleAt: now + Math.max(this.#freshMs, slowMs) }
    this.#reading = null
    return value
  }
}

export interface FigureGauge<T> {
  name: string
  help: string
  /** One label at most. */
  label?: string
  /** The value, or the values by the label's. */
  of: (figures: T) => number | Record<string, number>
}

/** Gauges of a figure. They are missing from a scrape when the figure is. */
export function registerGauges<T>(
  registry: Registry,
  figure: Pick<Figure<T>, 'value'>,
  gauges: FigureGauge<T>[],
): void {
  for (const { name, help, label, of } of gauges)
    new Gauge({
      name,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [registry],
      async collect() {
        const figures = await figure.value()
        // `reset` alone would leave a 0 where there is no label.
        if (label === undefined) this.remove()
        else this.reset()
        if (figures === null) return
        const values = of(figures)
        if (typeof values === 'number') this.set(values)
        else for (const [key, value] of Object.entries(values)) this.set({ [label!]: key }, value)
      },
    })
}
