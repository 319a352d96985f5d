/** The metrics of a soak's processes, scraped as a Prometheus would. */

export interface Sample {
  at: number
  /** MB. */
  rss: number
  /** MB that the main thread and the workers have in use. */
  heap: number
  /** Open files and sockets. */
  files: number
  /** Resources that keep the event loop alive: timers, sockets, servers. */
  handles: number
}

/** One process from its start to its end. */
export class ProcessRun {
  readonly samples: Sample[] = []
  /** The series of the last scrape, by `name{labels}`. */
  last = new Map<string, number>()
  /** Counters that fell between two scrapes, with both values. */
  readonly fallen: string[] = []
  readonly #url: string
  #startedAt: number | undefined
  #scraped: Promise<void> = Promise.resolve()

  constructor(url: string) {
    this.#url = url
  }

  /** Scrapes run one after the other: the reply of an earlier one could otherwise be read last, with lower counters. */
  scrape(): Promise<void> {
    this.#scraped = this.#scraped.then(() => this.#scrapeOnce())
    return this.#scraped
  }

  /** A process that is being killed doesn't answer; the series of the scrape before stay. */
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
    // After its death, its port may belong to the next process.
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

  /** The sum of the metric's series whose labels contain the text. */
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

/** The slope of the least-squares line through `value`, a minute. */
export function slopePerMinute(samples: readonly Sample[], value: (sample: Sample) => number): number {
  const points = samples.map((sample) => ({ x: sample.at / 60_000, y: value(sample) }))
  const mean = (list: number[]) => list.reduce((sum, one) => sum + one, 0) / list.length
  const [meanX, meanY] = [mean(points.map(({ x }) => x)), mean(points.map(({ y }) => y))]
  const covariance = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0)
  const variance = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0)
  return covariance / variance
}
