import { setTimeout as sleep } from 'node:timers/promises'
import { Gauge, type Registry } from 'prom-client'
import { clock } from '../clock.ts'

/**
 * A figure that has to be asked for: of the database, of the disk. Scrapes share one reading, which counts for at least
 * `freshMs` and for 200 times as long as it took, so that however many scrape, a process keeps what it asks busy for no
 * more than 0.5 % of the time. Nobody waits for a reading longer than `patienceMs`: who asks gets null then, and a
 * reading that failed is null as well until it is stale.
 */
export class Figure<T> {
  readonly #read: () => Promise<T>
  readonly #freshMs: number
  readonly #patienceMs: number
  #last: { value: T | null; staleAt: number } | null = null
  #reading: { done: Promise<T | null>; impatientAt: number } | null = null

  constructor(read: () => Promise<T>, options: { freshMs?: number; patienceMs?: number } = {}) {
    this.#read = read
    this.#freshMs = options.freshMs ?? 500
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
    let value: T | null = null
    try {
      value = await this.#read()
    } catch {
      // Missing from the scrape is how it shows; rollcall_database_up says why.
    }
    const now = clock.monotonicMs()
    this.#last = { value, staleAt: now + Math.max(this.#freshMs, 200 * (now - startedAt)) }
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
