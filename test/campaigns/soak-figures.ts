/** What the processes of a soak say of themselves, scrape by scrape, as a Prometheus beside them would have it. */

export interface Sample {
  at: number
  /** MB. */
  rss: number
  /** MB that the main thread and the workers have in use. */
  heap: number
  /** Open files and sockets. */
  files: number
  /** What keeps the event loop: timers, sockets, servers. */
  handles: number
}

/** One process from its start to its end. */
export class Life {
  readonly samples: Sample[] = []
  /** Series as the last scrape had them, `name{labels}`. */
  last = new Map<string, number>()
  /** Counters that became less, with both values: there must be none. */
  readonly fallen: string[] = []
  readonly #url: string
  #startedAt: number | undefined
  #scraped: Promise<void> = Promise.resolve()

  constructor(url: string) {
    this.#url = url
  }

  /** One scrape after the other: of two at once the earlier could be read last, and its counters were lower. */
  scrape(): Promise<void> {
    this.#scraped = this.#scraped.then(() => this.#scrapeOnce())
    return this.#scraped
  }

  /** A process that is being killed answers nothing, and what it said before stands. */
  async #scrapeOnce(): Promise<void> {
    let text: string
    try {
      const response = await fetch(this.#url, { signal: AbortSignal.timeout(10_000) })
      text = await response.text()
      if (!response.ok) return
    } catch {
      return
    }
    const now = seriesOf(text)
    // Its port may be that of the next one already.
    const startedAt = now.get('process_start_time_seconds')
    if ((this.#startedAt ??= startedAt) !== startedAt) return
    for (const [series, value] of now) {
      const before = this.last.get(series)
      if (before !== undefined && counts(series) && value < before)
        this.fallen.push(`${series}: ${before}, then ${value}`)
    }
    this.last = now
    this.samples.push({
      at: Date.now(),
      rss: (now.get('process_resident_memory_bytes') ?? NaN) / 2 ** 20,
      heap: (this.sum('nodejs_heap_size_used_bytes') + this.sum('rollcall_worker_heap_used_bytes')) / 2 ** 20,
      files: now.get('process_open_fds') ?? NaN,
      handles: this.sum('nodejs_active_resources'),
    })
  }

  /** The sum of a metric's series, of those that have this text among their labels. */
  sum(name: string, label = ''): number {
    let sum = 0
    for (const [series, value] of this.last)
      if ((series === name || series.startsWith(`${name}{`)) && series.includes(label)) sum += value
    return sum
  }
}

function seriesOf(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(' ')
      return [line.slice(0, space), Number(line.slice(space + 1))]
    }),
  )
}

const counts = (series: string): boolean => /^[^{]*_(?:total|count|sum|bucket)(?:\{|$)/.test(series)

/** Least squares: by how much `value` rises in a minute. */
export function slopePerMinute(samples: readonly Sample[], value: (sample: Sample) => number): number {
  const minutes = samples.map(({ at }) => at / 60_000)
  const values = samples.map(value)
  const mean = (list: number[]) => list.reduce((sum, one) => sum + one, 0) / list.length
  const [meanX, meanY] = [mean(minutes), mean(values)]
  const covariance = minutes.reduce((sum, x, i) => sum + (x - meanX) * (values[i]! - meanY), 0)
  const variance = minutes.reduce((sum, x) => sum + (x - meanX) ** 2, 0)
  return covariance / variance
}
