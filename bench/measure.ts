import type { MongoClient } from 'mongodb'
import { serverUsage, type ServerUsage } from './mongodb-server.ts'
import type { Usage } from './processes.ts'
import type { Measured, Timeline, Work } from './scenario.ts'

/** Looks at processes and server while work is done, and says what the work took; how many rows it was may be known at its end. */
export async function measure(
  server: MongoClient,
  rows: number | (() => number),
  work: Work,
): Promise<Measured> {
  const looks = new Looks(server, work)
  await looks.begin()
  try {
    await work.do()
  } finally {
    looks.stop()
  }
  const seconds = looks.elapsed()
  const done = typeof rows === 'number' ? rows : rows()
  await looks.last(done, seconds)
  const processes = looks.processes()
  const { mongod, ...clients } = processes
  const clientSeconds = Object.values(clients).reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
  return {
    seconds,
    rows: done,
    clientMicroseconds: (clientSeconds / done) * 1e6,
    serverMicroseconds: (mongod!.cpuSeconds / done) * 1e6,
    // Who asks only for what the server did names no process.
    peakMemoryMB: processes[work.processes[0]?.name ?? 'mongod']!.peakMemoryMB,
    processes,
    timeline: looks.timeline(),
  }
}

interface Look {
  seconds: number
  rows: number
  usages: Record<string, Usage>
}

const maxSamples = 240

/** However long the work takes, a timeline has at most 240 moments: when they are reached, every other one goes. */
class Looks {
  readonly #server: MongoClient
  readonly #work: Work
  readonly #peaks = new Map<string, number>()
  #looks: Look[] = []
  #writesBefore = 0
  #startedAt = 0
  #everyMs: number
  #timer: NodeJS.Timeout | undefined
  #current: Promise<void> = Promise.resolve()
  #isOn = true

  constructor(server: MongoClient, work: Work) {
    this.#server = server
    this.#work = work
    this.#everyMs = work.pollIntervalMs ?? 250
  }

  async begin(): Promise<void> {
    const { server, usages } = await this.#ask()
    this.#writesBefore = server.writes
    this.#keep({ seconds: 0, rows: 0, usages })
    this.#startedAt = performance.now()
    this.#schedule()
  }

  elapsed(): number {
    return (performance.now() - this.#startedAt) / 1000
  }

  stop(): void {
    this.#isOn = false
    clearTimeout(this.#timer)
  }

  /** At the end all rows are done, whatever the counter that was looked at still says. */
  async last(rows: number, seconds: number): Promise<void> {
    await this.#current
    this.#looks = this.#looks.filter((look) => look.seconds < seconds)
    this.#keep({ seconds, rows, usages: (await this.#ask()).usages })
  }

  processes(): Measured['processes'] {
    const [first, last] = [this.#looks[0]!, this.#looks.at(-1)!]
    return Object.fromEntries(
      Object.keys(first.usages).map((name) => [
        name,
        {
          cpuSeconds: last.usages[name]!.cpuSeconds - first.usages[name]!.cpuSeconds,
          peakMemoryMB: this.#peaks.get(name)!,
        },
      ]),
    )
  }

  timeline(): Timeline {
    const looks = this.#looks
    const names = Object.keys(looks[0]!.usages)
    const column = (pick: (look: Look) => number) => looks.map(pick)
    const byName = (pick: (look: Look, name: string) => number) =>
      Object.fromEntries(names.map((name) => [name, column((look) => pick(look, name))]))
    const before = looks[0]!.usages
    return {
      seconds: column(({ seconds }) => seconds),
      rows: column(({ rows }) => rows),
      cpuSeconds: byName(({ usages }, name) => usages[name]!.cpuSeconds - before[name]!.cpuSeconds),
      memoryMB: byName(({ usages }, name) => usages[name]!.memoryMB),
    }
  }

  #schedule(): void {
    if (!this.#isOn) return
    this.#timer = setTimeout(() => {
      // A look that fails is one less: a process may be about to end.
      this.#current = this.#look()
        .catch(() => undefined)
        .then(() => this.#schedule())
    }, this.#everyMs)
  }

  async #look(): Promise<void> {
    const { progress } = this.#work
    const { server, usages } = await this.#ask()
    const rows = progress?.() ?? server.writes - this.#writesBefore
    this.#keep({ seconds: this.elapsed(), rows, usages })
    if (this.#looks.length < maxSamples) return
    this.#looks = this.#looks.filter((_, i) => i % 2 === 0)
    this.#everyMs *= 2
  }

  #keep(look: Look): void {
    this.#looks.push(look)
    for (const [name, { memoryMB }] of Object.entries(look.usages))
      this.#peaks.set(name, Math.max(this.#peaks.get(name) ?? 0, memoryMB))
  }

  async #ask(): Promise<{ server: ServerUsage; usages: Record<string, Usage> }> {
    const { processes } = this.#work
    const [server, ...usages] = await Promise.all([
      serverUsage(this.#server),
      ...processes.map(({ usage }) => usage()),
    ])
    const { cpuSeconds, memoryMB } = server
    const named = processes.map(({ name }, i) => [name, usages[i]!] as const)
    return { server, usages: { ...Object.fromEntries(named), mongod: { cpuSeconds, memoryMB } } }
  }
}
