import type { MongoClient } from 'mongodb'
import { serverUsage, type ServerUsage } from './mongodb-server.ts'
import type { Usage } from './processes.ts'
import type { Measured, Timeline, Work } from './scenario.ts'

/** Samples the work's processes and the server while the work is done, and says what it cost. */
export async function measure<T>(server: MongoClient, work: Work<T>): Promise<Measured & { done: T }> {
  const before = await readUsages(server, work)
  const sampler = new Sampler(server, work, before)
  let done: T
  try {
    done = await work.do()
  } finally {
    sampler.stop()
  }
  const seconds = sampler.elapsed()
  const rows = typeof work.rows === 'number' ? work.rows : work.rows()
  const { processes, timeline } = await sampler.finish(rows, seconds)
  const cpuSeconds = Object.values(processes).reduce((sum, one) => sum + one.cpuSeconds, 0)
  const serverSeconds = processes['mongod']?.cpuSeconds ?? 0
  return {
    done,
    seconds,
    rows,
    clientMicroseconds: ((cpuSeconds - serverSeconds) / rows) * 1e6,
    serverMicroseconds: (serverSeconds / rows) * 1e6,
    processes,
    timeline,
  }
}

interface Sample {
  seconds: number
  rows: number
  /** In the order of the processes, the server last. */
  usages: Usage[]
}

const maxSamples = 240

/** Keeps at most 240 samples: at that number every other one is dropped, and the interval doubles. */
class Sampler {
  readonly #server: MongoClient
  readonly #work: Work<unknown>
  readonly #names: string[]
  readonly #before: { server: ServerUsage; usages: Usage[] }
  readonly #peaks: number[] = []
  readonly #startedAt = performance.now()
  #samples: Sample[] = []
  #intervalMs: number
  #timer: NodeJS.Timeout | undefined
  #current: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(server: MongoClient, work: Work<unknown>, before: { server: ServerUsage; usages: Usage[] }) {
    this.#server = server
    this.#work = work
    this.#names = [...work.processes.map(({ name }) => name), 'mongod']
    this.#before = before
    this.#intervalMs = work.sampleIntervalMs ?? 250
    this.#keep({ seconds: 0, rows: 0, usages: before.usages })
    this.#schedule()
  }

  elapsed(): number {
    return (performance.now() - this.#startedAt) / 1000
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /** The last sample has all rows, whatever the counter says: it may lag behind. */
  async finish(rows: number, seconds: number): Promise<Pick<Measured, 'processes' | 'timeline'>> {
    await this.#current
    this.#samples = this.#samples.filter((sample) => sample.seconds < seconds)
    const { usages } = await readUsages(this.#server, this.#work)
    this.#keep({ seconds, rows, usages })
    const byName = <V>(pick: (i: number) => V): Record<string, V> =>
      Object.fromEntries(this.#names.map((name, i) => [name, pick(i)]))
    const cpuSince = (sample: Sample, i: number) =>
      (sample.usages[i]?.cpuSeconds ?? 0) - (this.#before.usages[i]?.cpuSeconds ?? 0)
    const column = (pick: (sample: Sample) => number) => this.#samples.map(pick)
    const timeline: Timeline = {
      seconds: column((sample) => sample.seconds),
      rows: column((sample) => sample.rows),
      cpuSeconds: byName((i) => column((sample) => cpuSince(sample, i))),
      memoryMB: byName((i) => column((sample) => sample.usages[i]?.memoryMB ?? 0)),
    }
    const processes = byName((i) => ({
      cpuSeconds: cpuSince({ seconds, rows, usages }, i),
      peakMemoryMB: this.#peaks[i] ?? 0,
    }))
    return { processes, timeline }
  }

  #schedule(): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      // A failed sample is dropped: a process may be about to end.
      this.#current = this.#sample()
        .catch(() => undefined)
        .then(() => this.#schedule())
    }, this.#intervalMs)
  }

  async #sample(): Promise<void> {
    const { server, usages } = await readUsages(this.#server, this.#work)
    const rows = this.#work.progress?.() ?? server.writes - this.#before.server.writes
    this.#keep({ seconds: this.elapsed(), rows, usages })
    if (this.#samples.length < maxSamples) return
    this.#samples = this.#samples.filter((_, i) => i % 2 === 0)
    this.#intervalMs *= 2
  }

  #keep(sample: Sample): void {
    this.#samples.push(sample)
    for (const [i, { memoryMB }] of sample.usages.entries())
      this.#peaks[i] = Math.max(this.#peaks[i] ?? 0, memoryMB)
  }
}

async function readUsages(server: MongoClient, { processes }: Work<unknown>) {
  const [ofServer, ...usages] = await Promise.all([
    serverUsage(server),
    ...processes.map(({ usage }) => usage()),
  ])
  return { server: ofServer, usages: [...usages, ofServer] }
}
